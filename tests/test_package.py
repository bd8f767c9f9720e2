"""The package as a user gets it: stubs, source distribution, wheel, version."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tarfile
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import llgx

ROOT = Path(__file__).parents[1]
EXTENSIONS = sorted(path.relative_to(ROOT) for path in ROOT.glob("llgx/**/*.pyx"))

extensions = pytest.mark.parametrize("source", EXTENSIONS, ids=str)


def module_name(source: Path) -> str:
    return ".".join(source.with_suffix("").parts)


# --- Stubs -------------------------------------------------------------------------------------
#
# What inspection does not tell, how to construct an extension type, is read from the .pyx file.

Shape = list[tuple[str, str, bool]]  # name, kind and whether there is a default


def stub_shape(arguments: ast.arguments) -> Shape:
    positional = arguments.posonlyargs + arguments.args
    first_default = len(positional) - len(arguments.defaults)
    shape: Shape = []
    for index, argument in enumerate(positional):
        only = index < len(arguments.posonlyargs)
        kind = "POSITIONAL_ONLY" if only else "POSITIONAL_OR_KEYWORD"
        shape.append((argument.arg, kind, index >= first_default))
    if arguments.vararg:
        shape.append((arguments.vararg.arg, "VAR_POSITIONAL", False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        shape.append((argument.arg, "KEYWORD_ONLY", default is not None))
    if arguments.kwarg:
        shape.append((arguments.kwarg.arg, "VAR_KEYWORD", False))
    return shape


def stub_defaults(arguments: ast.arguments) -> dict[str, object]:
    """The defaults that a stub spells out as literals, by parameter."""
    positional = arguments.posonlyargs + arguments.args
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    found = {}
    for argument, default in pairs:
        if default is not None:
            try:
                value = ast.literal_eval(default)
            except ValueError:
                continue  # a name: what it stands for is not known here
            if value is not ...:
                found[argument.arg] = value
    return found


def runtime_shape(function: object) -> Shape:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    empty = inspect.Parameter.empty
    return [(p.name, p.kind.name, p.default is not empty) for p in parameters]


def assert_same_function(stub: ast.FunctionDef, function: object) -> None:
    assert not stub.decorator_list or all(
        isinstance(d, ast.Name) and d.id in {"staticmethod", "classmethod"}
        for d in stub.decorator_list
    ), f"{stub.name}: this test does not know the decorator"
    shape = stub_shape(stub.args)
    assert shape == runtime_shape(function), stub.name
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    for name, value in stub_defaults(stub.args).items():
        assert parameters[name].default == value, f"{stub.name}: default of {name}"


def split_arguments(text: str) -> Iterator[str]:
    """The parts of ``text`` between commas that are in no bracket and no string."""
    depth, quote, begin = 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            yield text[begin:index].strip()
            begin = index + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def constructor_shape(pyx: str, name: str) -> Shape:
    """The parameters of ``cdef class name``, from its ``__init__`` or ``__cinit__``."""
    body = re.search(rf"^(?:cdef )?class {name}\b.*?(?=^\S|\Z)", pyx, re.MULTILINE | re.DOTALL)
    assert body, f"class {name} is not in the source"
    for method in ("__init__", "__cinit__"):
        head = re.search(
            rf"^    def {method}\((.*?)\)\s*(?:->[^:\n]*)?:", body[0], re.MULTILINE | re.DOTALL
        )
        if head:
            break
    else:
        return [("self", "POSITIONAL_OR_KEYWORD", False)]
    shape: Shape = []
    kind = "POSITIONAL_OR_KEYWORD"
    for part in split_arguments(re.sub(r"#.*", "", head[1])):
        # Brackets hold colons of their own: `const int[::1] x`, `x: dict[str, int]`.
        part = re.sub(r"\[[^\]]*\]", "", part)
        if part == "/":
            shape = [(parameter, "POSITIONAL_ONLY", default) for parameter, _, default in shape]
        elif part == "*":
            kind = "KEYWORD_ONLY"
        elif part.startswith("**"):
            shape.append((part[2:].split(":")[0].strip(), "VAR_KEYWORD", False))
        elif part.startswith("*"):
            shape.append((part[1:].split(":")[0].strip(), "VAR_POSITIONAL", False))
            kind = "KEYWORD_ONLY"
        else:
            declared, has_default, _ = part.partition("=")
            # Either `const int x` or `x: int`, possibly followed by `not None`.
            declared = re.sub(r"\s+(?:not|or)\s+None$", "", declared.split(":")[0].strip())
            found = re.search(r"\w+$", declared)
            assert found, f"class {name}: cannot read the parameter {part!r}"
            shape.append((found[0], kind, bool(has_default)))
    return shape


def assert_same_class(stub: ast.ClassDef, cls: type, pyx: str) -> None:
    declared: dict[str, ast.stmt] = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            declared[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared[node.target.id] = node
    public = {name for name in vars(cls) if not name.startswith("_")}
    assert {name for name in declared if not name.startswith("_")} == public, cls.__name__

    constructor = next((declared[n] for n in ("__init__", "__new__") if n in declared), None)
    arguments = [("self", "POSITIONAL_OR_KEYWORD", False)]
    if isinstance(constructor, ast.FunctionDef):
        arguments = stub_shape(constructor.args)
    expected = constructor_shape(pyx, cls.__name__)
    assert arguments[1:] == expected[1:], f"constructor of {cls.__name__}"

    for name, node in declared.items():
        if name in {"__init__", "__new__"}:
            continue
        assert hasattr(cls, name), f"{cls.__name__}.{name}"
        if name.startswith("__"):
            continue  # slots: their signatures are the interpreter's
        value = inspect.getattr_static(cls, name)
        decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.AnnAssign) or "property" in decorators:
            assert not inspect.isroutine(value), f"{cls.__name__}.{name} is a method"
            continue
        assert isinstance(node, ast.FunctionDef)
        assert isinstance(value, staticmethod) == ("staticmethod" in decorators), name
        assert isinstance(value, classmethod) == ("classmethod" in decorators), name
        if isinstance(value, classmethod):
            node.args.args = node.args.args[1:]  # bound: what inspection shows has no `cls`
        assert_same_function(node, getattr(cls, name))


def test_lines_of_cython_are_as_short_as_those_of_python() -> None:
    """Ruff reads no Cython."""
    assert not [
        f"{path.relative_to(ROOT)}:{number}"
        for pattern in ("*.pyx", "*.pxd")
        for path in (ROOT / "llgx").rglob(pattern)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if len(line) > 100
    ]


@extensions
def test_stub_agrees_with_its_module(source: Path) -> None:
    stub = ROOT / source.with_suffix(".pyi")
    assert stub.exists(), f"{source} has no stub"
    module = importlib.import_module(module_name(source))
    assert not (module.__file__ or ".py").endswith(".py")
    pyx = (ROOT / source).read_text("utf-8")

    declared: dict[str, ast.stmt] = {}
    imported: set[str] = set()
    for node in ast.parse(stub.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            declared[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared[node.target.id] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported.update((alias.asname or alias.name).split(".")[0] for alias in node.names)

    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", None) in {None, module.__name__}
    }
    public = {name for name in declared if not name.startswith("_")}
    assert public - imported == own - imported

    for name in sorted(public):
        node, value = declared[name], getattr(module, name)
        if isinstance(node, ast.ClassDef):
            assert isinstance(value, type)
            assert_same_class(node, value, pyx)
        elif isinstance(node, ast.FunctionDef):
            assert_same_function(node, value)
        else:
            assert not callable(value), name


def test_constructor_shape_reads_cython() -> None:
    pyx = (
        "cdef class Other:\n    def __init__(self): pass\n\n"
        'cdef class Box:\n    """Doc."""\n    cdef int a\n\n'
        "    def __cinit__(\n        self,\n        const uint8_t[::1] data not None,\n"
        "        int n=4,  # how many, of (what)\n        *,\n        name: str = ',)',\n"
        "        **rest\n    ):\n        pass\n\n"
        "def after(x): pass\n"
    )
    assert constructor_shape(pyx, "Box") == [
        ("self", "POSITIONAL_OR_KEYWORD", False),
        ("data", "POSITIONAL_OR_KEYWORD", False),
        ("n", "POSITIONAL_OR_KEYWORD", True),
        ("name", "KEYWORD_ONLY", True),
        ("rest", "VAR_KEYWORD", False),
    ]


# --- Distributions -----------------------------------------------------------------------------


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def package_files() -> set[str]:
    """What of llgx/ belongs to the package, by kind; nothing that a build leaves there."""
    kinds = ("*.py", "*.pyi", "*.pyx", "*.pxd", "py.typed")
    return {
        path.relative_to(ROOT).as_posix() for kind in kinds for path in ROOT.glob(f"llgx/**/{kind}")
    }


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sdist")
    build = f"from scikit_build_core.build import build_sdist; build_sdist({str(directory)!r})"
    run(sys.executable, "-c", build)
    (archive,) = directory.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, without optimisation to save time."""
    directory = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir")
    options += ("--config-settings=cmake.build-type=Debug",)
    run(*pip, "wheel", *options, "--wheel-dir", directory, sdist, cwd=directory)
    (archive,) = directory.iterdir()
    return archive


def test_sdist_holds_what_a_build_and_its_tests_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {PurePosixPath(member.name) for member in archive if member.isfile()}
    root = f"llgx-{importlib.metadata.version('llgx')}"
    assert {name.parts[0] for name in names} == {root}
    inside = {name.relative_to(root).as_posix() for name in names}
    needed = package_files() | {
        "CHANGELOG.md",
        "CMakeLists.txt",
        "LICENSE",
        "Makefile",
        "PKG-INFO",
        "README.md",
        "examples/demo.py",
        "pyproject.toml",
        "tests/test_package.py",
        "tools/constraints.txt",
    }
    assert needed <= inside
    built = re.compile(r"(^|/)(build|\.venv|__pycache__)/|\.(so|pyd|c|o|pyc|gguf|whl)$")
    assert not [name for name in inside if built.search(name)]


def test_wheel_holds_the_package_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    libraries = {name for name in package if name.endswith((".so", ".pyd"))}
    sources = {name for name in package_files() if not name.endswith((".pyx", ".pxd"))}
    assert package - libraries == sources
    modules = {name.split(".")[0] for name in libraries}
    assert modules == {source.with_suffix("").as_posix() for source in EXTENSIONS}
    assert len(libraries) == len(EXTENSIONS)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_wheel_imports_away_from_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    modules = [module_name(source) for source in EXTENSIONS]
    # Without site-packages' import hooks, so that the editable install cannot step in.
    code = (
        "import importlib, sys\n"
        "sys.meta_path = [f for f in sys.meta_path if isinstance(f, type)]\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"for name in ['llgx', *{modules!r}]:\n"
        "    print(importlib.import_module(name).__file__)\n"
    )
    lines = run(sys.executable, "-c", code, cwd=tmp_path).split()
    assert len(lines) == len(modules) + 1
    assert all(Path(line).is_relative_to(tmp_path) for line in lines), lines


# --- Metadata ----------------------------------------------------------------------------------


def test_version_is_the_same_everywhere() -> None:
    version = importlib.metadata.version("llgx")
    assert llgx.__version__ == version
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    latest = re.search(r"^## \[?(\d[^\]\s]*)", changelog, re.MULTILINE)
    assert latest
    assert latest[1] == version


def test_public_names_exist() -> None:
    assert sorted(llgx.__all__) == sorted(set(llgx.__all__))
    for name in llgx.__all__:
        assert hasattr(llgx, name), name


def test_dir_shows_what_is_public() -> None:
    shown = {name for name in dir(llgx) if not name.startswith("_")}
    assert set(llgx.__all__) <= shown
    modules = {name for name, value in vars(llgx).items() if isinstance(value, types.ModuleType)}
    assert shown - set(llgx.__all__) - modules == {"LlamaGrammar"}


def test_package_is_marked_as_typed() -> None:
    assert (Path(llgx.__file__).parent / "py.typed").exists()


def test_requirements_are_the_stated_ones() -> None:
    requires = importlib.metadata.requires("llgx") or []
    run_time = {re.split(r"[<>=!~ ;\[]", line)[0] for line in requires if "extra ==" not in line}
    assert run_time == {"numpy", "jsonschema", "interegular"}
