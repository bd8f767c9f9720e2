"""What an engine makes of a case: an outcome for each document, found in a process of its own.

A document is *passed* when it is accepted to its end if it is valid, and refused if it is not. A
schema that the engine refuses is *refused* for all its documents, unless it says that the schema
allows nothing at all: then it refuses each document. Everything else that ends in an exception, in
the death of the process or beyond the time or memory allowed is a *crash*.

Cases run in worker processes, so that no case can end the run. Invariant: each case gets exactly
one :class:`Result`, and results do not depend on how many workers there are.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import resource
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from engines import Engine, make_engine
from json_cases import Case

import llgx
from llgx.json_schema.numbers import NumberSpelling

__all__ = [
    "BYTES",
    "CRASH",
    "OUTCOMES",
    "PASS",
    "REFUSED",
    "WIDENINGS",
    "WRONG_ACCEPT",
    "WRONG_REJECT",
    "Result",
    "Setting",
    "judge",
    "judge_all",
    "outcome_of",
]

PASS: Final = "."
REFUSED: Final = "x"
WRONG_REJECT: Final = "r"
WRONG_ACCEPT: Final = "a"
CRASH: Final = "c"
# From best to worst: the outcome of a case is the worst of its documents
OUTCOMES: Final = {
    PASS: "pass",
    REFUSED: "refused",
    WRONG_REJECT: "wrong reject",
    WRONG_ACCEPT: "wrong accept",
    CRASH: "crash",
}
_RANK: Final = {letter: rank for rank, letter in enumerate(OUTCOMES)}

BYTES: Final = "bytes"
"""The vocabulary with one token for each byte and one end of generation."""

# The defaults that refuse valid documents on purpose, and what lifts each
WIDENINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "member order": {"property_order": "any"},
    "number spelling": {"numbers": NumberSpelling(zeros="always")},
    "format byte": {"ignored_formats": ("byte",)},
}
_MESSAGE: Final = 300
# How llguidance and llgx say that a schema allows nothing
_UNSATISFIABLE: Final = ("Unsatisfiable schema", "no value satisfies the schema")


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """How workers judge: the engine, its vocabulary (``BYTES`` or a GGUF file), caps for a case.

    ``maker`` makes the engine from its name and the vocabulary, in the worker.
    """

    engine: str = "llgx"
    vocabulary: str = BYTES
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 20.0
    gigabytes: float = 3.0
    maker: Callable[[str, llgx.Vocabulary], Engine] = make_engine


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The outcomes of a case, a letter for each document; ``message`` says why, if anything does.

    A case without documents has one letter, for its schema.

    ``causes`` names, for wrong rejects that were tried again, the widening options that turn all
    of them into passes: () where none does.
    """

    case: str
    category: str
    letters: str
    message: str = ""
    seconds: float = 0.0
    causes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The worst letter."""
        return outcome_of(self.letters)


def outcome_of(letters: str) -> str:
    """The worst of the letters, of which there is at least one."""
    return max(letters, key=_RANK.__getitem__)


def judge(engine: Engine, case: Case, options: Mapping[str, Any], *, widen: bool = False) -> Result:
    """Compile the schema and try each document; with ``widen``, find what wrong rejects come from.

    Never raises for what the engine does, as long as the process lives.
    """
    begin = time.perf_counter()
    letters, message = _judge(engine, case, options)
    seconds = time.perf_counter() - begin
    causes: tuple[str, ...] = ()
    if widen and outcome_of(letters) == WRONG_REJECT:
        causes = _causes(engine, case, options, letters)
    return Result(case.id, case.category, letters, message[:_MESSAGE], seconds, causes)


def _judge(engine: Engine, case: Case, options: Mapping[str, Any]) -> tuple[str, str]:
    try:
        compiled = engine.compile_schema(case.schema, options)
    except (ValueError, llgx.LlgxError) as error:
        if not _is_typed(engine, error):
            return _for_all(case, CRASH), _describe(error)
        if not is_unsatisfiable(error):
            return _for_all(case, REFUSED), str(error)
        letters = [WRONG_REJECT if document.valid else PASS for document in case.documents]
        return "".join(letters) or PASS, str(error)
    except Exception as error:
        return _for_all(case, CRASH), _describe(error)
    letters, messages = [], []
    for document in case.documents:
        try:
            accepted = compiled().accepts(document.text.encode())
        except Exception as error:
            letters.append(CRASH)
            messages.append(_describe(error))
            continue
        if accepted == document.valid:
            letters.append(PASS)
        else:
            letters.append(WRONG_ACCEPT if accepted else WRONG_REJECT)
            messages.append(f"{OUTCOMES[letters[-1]]}: {document.text}")
    return "".join(letters) or PASS, messages[0] if messages else ""


def _for_all(case: Case, letter: str) -> str:
    return letter * max(1, len(case.documents))


def is_unsatisfiable(error: Exception) -> bool:
    """Whether an engine refuses a schema because it allows nothing."""
    return any(phrase in str(error) for phrase in _UNSATISFIABLE)


def _is_typed(engine: Engine, error: Exception) -> bool:
    """llgx owes an error of its own; of others any ``ValueError`` will do."""
    return engine.name != "llgx" or isinstance(error, llgx.LlgxError)


def _describe(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)
    place = f" at {where[-1].filename.rpartition('/')[2]}:{where[-1].lineno}" if where else ""
    return f"{type(error).__name__}{place}: {error}"


def _causes(
    engine: Engine, case: Case, options: Mapping[str, Any], letters: str
) -> tuple[str, ...]:
    rejected = [
        document
        for document, letter in zip(case.documents, letters, strict=True)
        if letter == WRONG_REJECT
    ]
    again = dataclasses.replace(case, documents=tuple(rejected))
    for count in range(1, len(WIDENINGS) + 1):
        for names in itertools.combinations(WIDENINGS, count):
            widening = {key: value for name in names for key, value in WIDENINGS[name].items()}
            if outcome_of(_judge(engine, again, {**options, **widening})[0]) == PASS:
                return names
    return ()


def make_vocabulary(name: str) -> llgx.Vocabulary:
    """The vocabulary of that name or path."""
    if name != BYTES:
        return llgx.Vocabulary.from_gguf(name)
    tokens = [bytes([byte]) for byte in range(256)]
    return llgx.Vocabulary.from_tokens([*tokens, b"<|end|>"], eog=256, name=BYTES)


def judge_all(
    cases: Iterable[Case], setting: Setting, *, widen: bool = False, workers: int = 1
) -> Iterator[Result]:
    """The result of each case, as they come; processes are started and ended as needed.

    A worker that dies, or takes longer for a case than ``setting.seconds``, is replaced, and its
    case is a crash. ``RuntimeError`` where workers cannot even start.
    """
    todo = deque(cases)
    running: list[_Worker] = []
    try:
        running = [_Worker(setting, widen) for _ in range(max(1, min(workers, len(todo))))]
        while todo or any(worker.case is not None for worker in running):
            for worker in running:
                if worker.case is None and todo:
                    worker.give(todo.popleft())
            ready = wait([worker.connection for worker in running if worker.case], timeout=0.2)
            for index, worker in enumerate(running):
                if worker.case is None:
                    continue
                result = worker.take(worker.connection in ready)
                if result is None:
                    continue
                yield result
                if not worker.alive:
                    worker.end()
                    running[index] = _Worker(setting, widen)
    finally:
        for worker in running:
            worker.end()


class _Worker:
    """A process that judges one case after the other. ``case`` is what it is busy with."""

    def __init__(self, setting: Setting, widen: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._setting = setting
        self._process = context.Process(target=_work, args=(theirs, setting, widen), daemon=True)
        self._process.start()
        theirs.close()
        self.case: Case | None = None
        self.alive = True
        self._deadline = 0.0
        try:
            self.connection.recv()
        except EOFError:
            raise RuntimeError(f"no worker for {setting.engine}: see above") from None

    def give(self, case: Case) -> None:
        self.case = case
        self._deadline = time.monotonic() + self._setting.seconds
        self.connection.send(case)

    def take(self, ready: bool) -> Result | None:
        """The result of the case if there is one by now, or what became of the worker."""
        case = self.case
        if case is None:
            return None
        failure = ""
        if ready:
            try:
                result: Result = self.connection.recv()
                self.case = None
                return result
            except (EOFError, ConnectionError):
                self._process.join(5)
                failure = f"the process died with code {self._process.exitcode}"
        elif time.monotonic() > self._deadline:
            failure = f"no result after {self._setting.seconds:g} s"
        else:
            return None
        self.case, self.alive = None, False
        seconds = self._setting.seconds
        return Result(case.id, case.category, _for_all(case, CRASH), failure, seconds)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _work(connection: Connection, setting: Setting, widen: bool) -> None:
    """The loop of a worker; one message says that it is ready."""
    engine = setting.maker(setting.engine, make_vocabulary(setting.vocabulary))
    limit = int(setting.gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    connection.send(None)
    while True:
        try:
            case: Case = connection.recv()
        except EOFError:
            return
        connection.send(judge(engine, case, setting.options, widen=widen))


def count(results: Sequence[Result]) -> Counter[str]:
    """How many cases there are of each outcome."""
    return Counter(result.outcome for result in results)
