from llgx import ir
from llgx.json_schema._plain_rules import PlainRules
from llgx.json_schema.loading import Document
from llgx.json_schema.options import Options
from llgx.json_schema.style import Style
from llgx.limits import Limits

class NotPlain(Exception): ...
class _Plain(PlainRules): ...

def compile_plain(
    document: Document, options: Options, style: Style, limits: Limits
) -> ir.GrammarIR | None: ...
