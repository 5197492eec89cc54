"""Finds, in source, every call that could run what a file holds: code, pickles, programs, modules by name."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

# Full names, whatever they are imported as. The last part alone counts where it could be of any object.
_RUNNING = {
    *("eval", "exec", "compile", "__import__", "globals", "execfile"),
    *("importlib.import_module", "importlib.util.spec_from_file_location", "importlib.util.module_from_spec"),
    *("runpy.run_path", "runpy.run_module", "imp.load_source", "pkgutil.resolve_name", "pydoc.locate"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "cPickle.loads", "_pickle.loads"),
    *("dill.load", "dill.loads", "joblib.load", "marshal.load", "marshal.loads", "shelve.open", "cloudpickle.load"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter", "torch.classes.load_library"),
    *("torch.hub.load_state_dict_from_url", "torch.ops.load_library", "torch.utils.cpp_extension.load"),
    *("pandas.read_pickle", "ctypes.CDLL", "ctypes.cdll.LoadLibrary"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "yaml.full_load_all"),
    *("hydra.utils.instantiate", "hydra.utils.call", "hydra.utils.get_class", "hydra.utils.get_method"),
    *("os.system", "os.popen", "pty.spawn", "asyncio.create_subprocess_shell", "asyncio.create_subprocess_exec"),
    *("subprocess.run", "subprocess.call", "subprocess.Popen", "subprocess.check_call", "subprocess.check_output"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput"),
    *("zipfile.ZipFile.extractall", "shutil.unpack_archive"),
    *("OmegaConf.register_new_resolver", "OmegaConf.register_resolver", "code.interact", "pdb.set_trace"),
}
_ANYWHERE = {"extractall", "os.execv", "os.execvp", "os.execve", "os.spawnv", "os.startfile"}
_ARRAYS = {"numpy.load", "numpy.lib.npyio.load", "numpy.fromregex"}


def running_calls(root: Path) -> Counter[str]:
    """``file: call`` for all Python files below a folder, the file as a path from there; and how often each occurs."""
    found: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in fairseq's regular expressions
            tree = ast.parse(path.read_text(encoding="utf-8"))
        found.update(f"{path.relative_to(root)}: {call}" for call in _calls(tree))
    return found


def _calls(tree: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    names = _imported(nodes)
    for node in nodes:
        # A function that is passed on, not called, counts too: map(eval, …).
        if isinstance(node, ast.Call):
            if _is_running(node, names):
                yield " ".join(ast.unparse(node).split())[:100]
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if _full_name(argument, names) in _RUNNING:
                    yield " ".join(ast.unparse(node).split())[:100]
        elif isinstance(node, ast.Assign) and _full_name(node.value, names) in _RUNNING:
            yield " ".join(ast.unparse(node).split())[:100]


def _is_running(call: ast.Call, names: dict[str, str]) -> bool:
    name = _full_name(call.func, names)
    if name in _ARRAYS:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        pickles = given.get("allow_pickle", ast.Constant(False))
        return not (isinstance(pickles, ast.Constant) and pickles.value is False) or None in given
    return name in _RUNNING or name in _ANYWHERE or name.rpartition(".")[2] in _ANYWHERE


def _imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What each imported name stands for."""
    names = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(["?", *reversed(parts)])
    full = ".".join([names.get(node.id, node.id), *reversed(parts)])
    return full.removeprefix("builtins.").removeprefix("omegaconf.").removeprefix("six.moves.")
