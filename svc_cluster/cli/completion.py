"""`svc-cluster completion`: what shells need to complete the command, made from its own parser."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Annotated, Final, Literal, Protocol, cast, get_args, get_origin

import typer
from typer.main import get_command

from svc_cluster.cli.terminal import say_surely as say

NAME: Final = "svc-cluster"


class ShellName(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class _TypeOf(Protocol):
    annotation: object


class _Parameter(Protocol):
    opts: list[str]
    secondary_opts: list[str]
    help: str | None
    type_descriptor: _TypeOf
    param_type_name: str


class _Command(Protocol):
    params: list[_Parameter]
    help: str | None


class Completion:
    """The words of each place of the command: what may stand there, and what is said of it."""

    def __init__(self, app: typer.Typer) -> None:
        self._places: dict[str, dict[str, str]] = {}
        self._choices: dict[tuple[str, str], list[str]] = {}
        self._values: set[tuple[str, str]] = set()
        self._walk("", cast(_Command, get_command(app)))

    def _walk(self, place: str, node: _Command) -> None:
        words: dict[str, str] = {}
        children: dict[str, _Command] = dict(getattr(node, "commands", {}))
        for name, child in sorted(children.items()):
            words[name] = _first_sentence(child.help)
            self._walk(f"{place} {name}".strip(), child)
        for parameter in node.params:
            choices = _choices(parameter.type_descriptor.annotation)
            if parameter.param_type_name == "argument":
                words |= dict.fromkeys(choices, "")
                continue
            for option in (*parameter.opts, *parameter.secondary_opts):
                words[option] = _first_sentence(parameter.help)
                if not getattr(parameter, "is_flag", False):
                    self._values.add((place, option))
                if choices:
                    self._choices[place, option] = choices
        words["--help"] = "Show what it does."
        self._places[place] = words

    def script(self, shell: ShellName) -> str:
        """Return the shell's own words for it."""
        match shell:
            case ShellName.BASH:
                return "\n".join(self._bash())
            case ShellName.ZSH:
                return "\n".join(["#compdef svc-cluster", *self._zsh()])
            case ShellName.FISH:
                return "\n".join(self._fish())

    def _cases(self) -> Iterator[str]:
        """What bash and zsh have in common: the words of a place, and of an option's value."""
        yield '  case "$place|$before" in'
        for (place, option), choices in sorted(self._choices.items()):
            told = shlex.quote(" ".join(choices))
            yield f"    {shlex.quote(f'{place}|{option}')}) words={told} ;;"
        for place, option in sorted(self._values - self._choices.keys()):
            yield f"    {shlex.quote(f'{place}|{option}')}) files=1 ;;"
        yield '    *) case "$place" in'
        for place, words in sorted(self._places.items()):
            yield f"      {shlex.quote(place)}) words={shlex.quote(' '.join(words))} ;;"
        yield "    esac ;;"
        yield "  esac"

    def _place(self, first: str, last: str, word: str) -> Iterator[str]:
        groups = " ".join(shlex.quote(place) for place in sorted(self._places) if place)
        yield "  local place='' before='' words='' files='' known each i"
        yield f"  known=({groups})"
        yield f"  for ((i = {first}; i < {last}; i++)); do"
        yield '    for each in "${known[@]}"; do'
        yield f'      if [[ "$each" == "${{place:+$place }}{word}" ]]; then place=$each; break; fi'
        yield "    done"
        yield "  done"

    def _bash(self) -> Iterator[str]:
        yield "_svc_cluster() {"
        yield from self._place("1", "COMP_CWORD", "${COMP_WORDS[i]}")
        yield "  before=${COMP_WORDS[COMP_CWORD-1]}"
        yield from self._cases()
        yield '  if [[ -n $files ]]; then COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))'
        yield '  else COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")); fi'
        yield "}"
        yield f"complete -o filenames -F _svc_cluster {NAME}"

    def _zsh(self) -> Iterator[str]:
        yield "_svc_cluster() {"
        yield from self._place("2", "CURRENT", "${words_[i]}")
        yield "  before=${words_[CURRENT-1]}"
        yield from self._cases()
        yield "  if [[ -n $files ]]; then _files; else compadd -- ${=words}; fi"
        yield "}"
        yield '_svc_cluster_entry() { local -a words_; words_=("${words[@]}"); _svc_cluster; }'
        yield f"compdef _svc_cluster_entry {NAME}"

    def _fish(self) -> Iterator[str]:
        yield f"complete -c {NAME} -f"
        for place, words in sorted(self._places.items()):
            when = self._condition(place)
            for word, told in words.items():
                yield self._fish_line(place, word, told, when)

    def _condition(self, place: str) -> str:
        inner = [p.rpartition(" ")[2] for p in self._places if p and p.rpartition(" ")[0] == place]
        seen = [f"__fish_seen_subcommand_from {name}" for name in place.split()]
        if inner:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(sorted(inner))}")
        return "; and ".join(seen)

    def _fish_line(self, place: str, word: str, told: str, when: str) -> str:
        parts = [f"complete -c {NAME}"]
        if when:
            parts.append(f"-n {shlex.quote(when)}")
        if word.startswith("--"):
            parts.append(f"-l {word[2:]}")
        elif word.startswith("-"):
            parts.append(f"-o {word[1:]}" if len(word) > 2 else f"-s {word[1:]}")
        else:
            parts.append(f"-a {shlex.quote(word)}")
        choices = self._choices.get((place, word))
        if choices:
            parts.append(f"-x -a {shlex.quote(' '.join(choices))}")
        elif (place, word) in self._values:
            parts.append("-r -F")
        if told:
            parts.append(f"-d {shlex.quote(told)}")
        return " ".join(parts)


def _choices(kind: object) -> list[str]:
    """The words that a value may be, none where it may be anything."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(each.value) for each in kind]
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    # of a list, or of what may be left out, the words of what is in it
    return [word for inner in get_args(kind) for word in _choices(inner)]


def _first_sentence(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line.partition(". ")[0].rstrip(".")


def add_completion(app: typer.Typer) -> None:
    """Add `completion` to the command."""

    @app.command("completion")
    def completion(
        shell: Annotated[ShellName, typer.Argument(help="Whose words.", show_choices=True)],
    ) -> None:
        """Print what completes this command in a shell. It is used by `source <(svc-cluster
        completion bash)`, the same for zsh, and `svc-cluster completion fish | source`."""
        say(Completion(app).script(shell))
