# cython: language_level=3
"""Memory of the kernels: arenas, word vectors, an interner of word sequences and a 128-bit map.

Everything here is plain C without the GIL. An allocation belongs to the struct that made it and is
freed by that struct's ``*_free``; sequences handed out by an :c:type:`Interner` stay where they are
until then, so kernels may keep pointers to them. Failure to allocate is reported by ``NONE`` or -1
and never leaves a structure unusable. Growth doubles hash tables (amortised constant time) and adds
blocks to arenas, so that no large copy happens in the middle of a mask.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #ifndef LLGX_NONE
    #define LLGX_NONE 0xFFFFFFFFu     /* no id, no bound, no memory */
    #define LLGX_UNKNOWN 0xFFFFFFFEu  /* not asked for yet */
    #endif
    """
    const uint32_t NONE "LLGX_NONE"
    const uint32_t UNKNOWN "LLGX_UNKNOWN"


# --------------------------------------------------------------------------- faults

cdef enum FaultCode:
    FAULT_NONE = 0
    FAULT_MEMORY = 1
    FAULT_REGEX_NODES = 2
    FAULT_REGEX_DEPTH = 3
    FAULT_EMPTINESS = 4
    FAULT_LEXER_STATES = 5
    FAULT_ROWS = 6
    FAULT_ROW_ITEMS = 7
    FAULT_SCOPES = 8
    FAULT_EXACT_PAIRS = 9


cdef struct Fault:
    int code             # the first fault since it was last cleared; kernels stop caring about
                         # their results once it is set, and memoise nothing


cdef inline void fault_set(Fault* fault, int code) noexcept nogil:
    if fault.code == FAULT_NONE:
        fault.code = code


# --------------------------------------------------------------------------- arenas

cdef struct Arena:
    char* block          # newest block; its first 16 bytes hold the link to the one before
    size_t used          # bytes taken from the newest block, link included
    size_t size          # bytes of the newest block
    size_t total         # bytes of all blocks


cdef inline void* arena_take(Arena* arena, size_t count) noexcept nogil:
    """``count`` bytes, aligned to 16; NULL when memory is out."""
    cdef size_t need = (count + 15) & ~(<size_t>15)
    cdef size_t size
    cdef char* block
    if arena.block == NULL or arena.used + need > arena.size:
        size = 4096 if arena.total < 4096 else (arena.total if arena.total < 262144 else 262144)
        if size < need + 16:
            size = need + 16
        block = <char*>malloc(size)
        if block == NULL:
            return NULL
        (<char**>block)[0] = arena.block
        arena.block = block
        arena.used = 16
        arena.size = size
        arena.total += size
    block = arena.block + arena.used
    arena.used += need
    return block


cdef inline void arena_free(Arena* arena) noexcept nogil:
    cdef char* block = arena.block
    cdef char* before
    while block != NULL:
        before = (<char**>block)[0]
        free(block)
        block = before
    memset(arena, 0, sizeof(Arena))


# --------------------------------------------------------------------------- arrays

cdef inline void* array_grown(
    void* items, uint32_t* room, uint32_t index, size_t size
) noexcept nogil:
    """``items``, elements of ``size`` bytes, with room for the one at ``index``; it may move.

    NULL when memory is out, and nothing changed. What is new is not initialised.
    """
    cdef size_t more = room[0]
    cdef void* grown
    if index < room[0]:
        return items
    more = 2 * more if more else 64
    if more <= index:
        more = <size_t>index + 1
    grown = realloc(items, more * size)
    if grown != NULL:
        room[0] = <uint32_t>more
    return grown


# --------------------------------------------------------------------------- queues

cdef struct Link:        # the first member of what a queue holds
    Link* older
    Link* newer


cdef struct Queue:       # of what has no users, in the order in which it lost them
    Link* oldest
    Link* newest


cdef inline void queue_put(Queue* queue, Link* link) noexcept nogil:
    link.older = queue.newest
    link.newer = NULL
    if queue.newest != NULL:
        queue.newest.newer = link
    else:
        queue.oldest = link
    queue.newest = link


cdef inline void queue_take(Queue* queue, Link* link) noexcept nogil:
    if link.older != NULL:
        link.older.newer = link.newer
    else:
        queue.oldest = link.newer
    if link.newer != NULL:
        link.newer.older = link.older
    else:
        queue.newest = link.older


# --------------------------------------------------------------------------- bits

cdef inline uint64_t bits_hash(const uint64_t* bits, uint32_t words) noexcept nogil:
    """A hash of a bitset."""
    cdef uint64_t lanes[8]
    cdef uint64_t h = 0
    cdef uint32_t i, j
    # Independent chains: one would wait for each multiplication.
    for i in range(8):
        lanes[i] = 0x9E3779B97F4A7C15ULL + i
    i = 0
    while i + 8 <= words:
        for j in range(8):
            lanes[j] = (lanes[j] ^ bits[i + j]) * 0xD6E8FEB86659FD93ULL
        # What high bits say must not stay in high bits.
        for j in range(8):
            lanes[j] ^= lanes[j] >> 32
        i += 8
    while i < words:
        lanes[i & 7] = (lanes[i & 7] ^ bits[i]) * 0xD6E8FEB86659FD93ULL
        i += 1
    for i in range(8):
        h = (h ^ lanes[i]) * 0xD6E8FEB86659FD93ULL
        h ^= h >> 29
    return h


cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static inline uint32_t llgx_lowest(uint64_t bits) {
        unsigned long at; _BitScanForward64(&at, bits); return (uint32_t)at;
    }
    #else
    static inline uint32_t llgx_lowest(uint64_t bits) { return (uint32_t)__builtin_ctzll(bits); }
    #endif
    """
    # The number of the lowest one of ``bits``, which is not 0.
    uint32_t lowest_bit "llgx_lowest"(uint64_t bits) noexcept nogil


# --------------------------------------------------------------------------- word vectors

cdef struct Words:
    uint32_t* at
    size_t size
    size_t room


cdef inline int words_reserve(Words* words, size_t extra) noexcept nogil:
    cdef size_t room
    cdef uint32_t* at
    if words.size + extra <= words.room:
        return 0
    room = words.room * 2 if words.room else 64
    if room < words.size + extra:
        room = words.size + extra
    at = <uint32_t*>realloc(words.at, room * sizeof(uint32_t))
    if at == NULL:
        return -1
    words.at = at
    words.room = room
    return 0


cdef inline int words_push(Words* words, uint32_t value) noexcept nogil:
    if words.size == words.room and words_reserve(words, 1) < 0:
        return -1
    words.at[words.size] = value
    words.size += 1
    return 0


cdef inline void words_free(Words* words) noexcept nogil:
    free(words.at)
    memset(words, 0, sizeof(Words))


cdef enum:
    SORTED_RUN = 8       # records up to which they are sorted by insertion


cdef inline bint record_is_before(
    const uint32_t* one, const uint32_t* other, uint32_t width
) noexcept nogil:
    cdef uint32_t i = 0
    while i + 1 < width and one[i] == other[i]:
        i += 1
    return one[i] < other[i]


cdef inline void record_copy(uint32_t* to, const uint32_t* record, uint32_t width) noexcept nogil:
    cdef uint32_t i
    for i in range(width):
        to[i] = record[i]


cdef inline int words_sort(Words* words, uint32_t width, Words* spare) noexcept nogil:
    """Sort records of so many words: short runs by insertion, then merged by way of ``spare``,
    whose content is lost. -1 when memory is out, and nothing changed.

    The C library's sort calls back for each comparison and copies by size.
    """
    cdef size_t size = words.size, run = SORTED_RUN * <size_t>width
    cdef size_t begin = 0, middle, end, left, right, at
    cdef uint32_t* items = words.at
    cdef uint32_t* merged
    spare.size = 0
    if words_reserve(spare, size + width) < 0:
        return -1
    merged = spare.at
    while begin < size:
        end = begin + run if begin + run < size else size
        right = begin + width
        while right < end:
            if record_is_before(items + right, items + right - width, width):
                record_copy(merged, items + right, width)
                at = right
                while at > begin and record_is_before(merged, items + at - width, width):
                    record_copy(items + at, items + at - width, width)
                    at -= width
                record_copy(items + at, merged, width)
            right += width
        begin = end
    while run < size:
        begin = 0
        while begin < size:
            middle = begin + run if begin + run < size else size
            end = begin + 2 * run if begin + 2 * run < size else size
            left = begin
            right = middle
            at = begin
            if middle == end or not record_is_before(items + middle, items + middle - width, width):
                memcpy(merged + begin, items + begin, (end - begin) * sizeof(uint32_t))
                at = end
            while at < end:
                if left < middle and (
                    right == end or not record_is_before(items + right, items + left, width)
                ):
                    record_copy(merged + at, items + left, width)
                    left += width
                else:
                    record_copy(merged + at, items + right, width)
                    right += width
                at += width
            begin = end
        items, merged = merged, items
        run *= 2
    if size and items != words.at:
        memcpy(words.at, items, size * sizeof(uint32_t))
    return 0


# --------------------------------------------------------------------------- interner

cdef struct Entry:
    uint32_t* words
    uint32_t length
    uint32_t hash


cdef struct Interner:
    Arena arena          # the sequences
    Entry* entries
    uint32_t count
    uint32_t room
    uint32_t* slots      # id + 1, or 0
    uint32_t mask        # number of slots - 1


cdef inline uint32_t words_hash(const uint32_t* words, size_t length) noexcept nogil:
    cdef uint64_t h = 0x9E3779B97F4A7C15ULL ^ length
    cdef size_t i
    for i in range(length):
        h = (h ^ words[i]) * 0xD6E8FEB86659FD93ULL
        h ^= h >> 32
    return <uint32_t>h


cdef inline int interner_grow(Interner* self) noexcept nogil:
    cdef uint32_t size = (self.mask + 1) * 2 if self.slots != NULL else 64
    cdef uint32_t* slots = <uint32_t*>calloc(size, sizeof(uint32_t))
    cdef uint32_t i, at
    if slots == NULL:
        return -1
    for i in range(self.count):
        at = self.entries[i].hash & (size - 1)
        while slots[at]:
            at = (at + 1) & (size - 1)
        slots[at] = i + 1
    free(self.slots)
    self.slots = slots
    self.mask = size - 1
    return 0


cdef inline uint32_t interner_put(
    Interner* self, const uint32_t* words, uint32_t length
) noexcept nogil:
    """The id of this sequence, new or known; ids count from 0. NONE when memory is out."""
    cdef uint32_t h = words_hash(words, length)
    cdef uint32_t at, found, room
    cdef Entry* entry
    if self.slots == NULL or self.count * 2 >= self.mask:
        if interner_grow(self) < 0:
            return NONE
    at = h & self.mask
    while self.slots[at]:
        found = self.slots[at] - 1
        entry = &self.entries[found]
        if entry.hash == h and entry.length == length and \
                memcmp(entry.words, words, length * sizeof(uint32_t)) == 0:
            return found
        at = (at + 1) & self.mask
    if self.count == self.room:
        room = self.room * 2 if self.room else 64
        entry = <Entry*>realloc(self.entries, room * sizeof(Entry))
        if entry == NULL:
            return NONE
        self.entries = entry
        self.room = room
    entry = &self.entries[self.count]
    entry.words = <uint32_t*>arena_take(&self.arena, length * sizeof(uint32_t))
    if entry.words == NULL:
        return NONE
    memcpy(entry.words, words, length * sizeof(uint32_t))
    entry.length = length
    entry.hash = h
    self.slots[at] = self.count + 1
    self.count += 1
    return self.count - 1


cdef inline void interner_drop(Interner* self) noexcept nogil:
    """Forget the newest sequence, for a caller that could not take it in."""
    cdef uint32_t at
    self.count -= 1
    at = self.entries[self.count].hash & self.mask
    while self.slots[at] != self.count + 1:
        at = (at + 1) & self.mask
    self.slots[at] = 0  # the newest ends its chain, so no other one is cut off


cdef inline size_t interner_bytes(const Interner* self) noexcept nogil:
    return self.arena.total + self.room * sizeof(Entry) + (self.mask + 1) * sizeof(uint32_t)


cdef inline int interner_copy(Interner* self, const Interner* source) noexcept nogil:
    """Make ``self``, which is empty, hold the same sequences under the same ids; -1 when memory is
    out. Then it is to be freed as ever."""
    cdef uint32_t i
    cdef size_t total = 0
    cdef uint32_t* words
    for i in range(source.count):
        total += source.entries[i].length
    self.entries = <Entry*>malloc((source.room + 1) * sizeof(Entry))
    self.slots = <uint32_t*>malloc((source.mask + 1) * sizeof(uint32_t))
    words = <uint32_t*>arena_take(&self.arena, total * sizeof(uint32_t))
    if self.entries == NULL or self.slots == NULL or words == NULL:
        return -1
    memcpy(self.slots, source.slots, (source.mask + 1) * sizeof(uint32_t))
    memcpy(self.entries, source.entries, source.count * sizeof(Entry))
    for i in range(source.count):
        memcpy(words, source.entries[i].words, source.entries[i].length * sizeof(uint32_t))
        self.entries[i].words = words
        words += source.entries[i].length
    self.count = source.count
    self.room = source.room
    self.mask = source.mask
    return 0


cdef inline void interner_free(Interner* self) noexcept nogil:
    arena_free(&self.arena)
    free(self.entries)
    free(self.slots)
    memset(self, 0, sizeof(Interner))


# --------------------------------------------------------------------------- map

cdef struct Slot:
    uint64_t high
    uint64_t low
    uint32_t value       # NONE in an empty slot


cdef struct Map:
    Slot* slots
    uint32_t mask
    uint32_t count


cdef inline uint32_t map_hash(uint64_t high, uint64_t low) noexcept nogil:
    cdef uint64_t h = (low ^ (high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL
    return <uint32_t>(h ^ (h >> 32))


cdef inline uint32_t map_get(const Map* self, uint64_t high, uint64_t low) noexcept nogil:
    """The value of the key, or NONE."""
    cdef uint32_t at
    if self.slots == NULL:
        return NONE
    at = map_hash(high, low) & self.mask
    while self.slots[at].value != NONE:
        if self.slots[at].low == low and self.slots[at].high == high:
            return self.slots[at].value
        at = (at + 1) & self.mask
    return NONE


cdef inline int map_grow(Map* self) noexcept nogil:
    cdef uint32_t size = (self.mask + 1) * 2 if self.slots != NULL else 64
    cdef Slot* slots = <Slot*>malloc(size * sizeof(Slot))
    cdef uint32_t i, at
    if slots == NULL:
        return -1
    for i in range(size):
        slots[i].value = NONE
    if self.slots != NULL:
        for i in range(self.mask + 1):
            if self.slots[i].value != NONE:
                at = map_hash(self.slots[i].high, self.slots[i].low) & (size - 1)
                while slots[at].value != NONE:
                    at = (at + 1) & (size - 1)
                slots[at] = self.slots[i]
        free(self.slots)
    self.slots = slots
    self.mask = size - 1
    return 0


cdef inline int map_put(Map* self, uint64_t high, uint64_t low, uint32_t value) noexcept nogil:
    """Set the value (not NONE) of a key; -1 when memory is out."""
    cdef uint32_t at
    if self.slots == NULL or self.count * 2 >= self.mask:
        if map_grow(self) < 0:
            return -1
    at = map_hash(high, low) & self.mask
    while self.slots[at].value != NONE:
        if self.slots[at].low == low and self.slots[at].high == high:
            self.slots[at].value = value
            return 0
        at = (at + 1) & self.mask
    self.slots[at].high = high
    self.slots[at].low = low
    self.slots[at].value = value
    self.count += 1
    return 0


cdef inline int map_copy(Map* self, const Map* source) noexcept nogil:
    """Make ``self``, which is empty, hold the same; -1 when memory is out."""
    if source.slots == NULL:
        return 0
    self.slots = <Slot*>malloc((source.mask + 1) * sizeof(Slot))
    if self.slots == NULL:
        return -1
    memcpy(self.slots, source.slots, (source.mask + 1) * sizeof(Slot))
    self.mask = source.mask
    self.count = source.count
    return 0


cdef inline void map_clear(Map* self) noexcept nogil:
    cdef uint32_t i
    if self.slots != NULL and self.count:
        for i in range(self.mask + 1):
            self.slots[i].value = NONE
        self.count = 0


cdef inline void map_free(Map* self) noexcept nogil:
    free(self.slots)
    memset(self, 0, sizeof(Map))
