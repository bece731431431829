"""The processes that serve one port together, as one of them sees the others.

Whichever of them is asked for metrics tells those of all. Each serves its own page on a socket of
the file system, in a directory that is theirs alone. Beside it lies the last page that anybody has
seen of it: what that has counted counts on when its process has died, or does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from svc_cluster.base.exposition_merge import PageError, merged
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.gateway_directory import GroupDirectory, page_path, socket_path
from svc_cluster.cli.processes.gateway_place import ProcessPlace

ASK_SECONDS: Final = 2.0
"""The others, all at once, have so long to answer."""
LOOK_SECONDS: Final = 1.0
"""So often it is looked whether the others can still find this process."""
PAGE_BYTES_MAX: Final = 8 << 20
"""A page that is longer is none; one of a gateway has some 100 KiB."""
LINE_BYTES_MAX: Final = 64
ASKED: Final = b"metrics 1\n"
"""What is asked for, with the version of the answer: a process that was started again may be of a
newer release than those beside it."""

log = get_logger("gateway.siblings")

_Page = Callable[[], Awaitable[bytes]]


class GatewaySiblings:
    """One process's view of its group."""

    def __init__(self, place: ProcessPlace) -> None:
        self.place = place
        self._directory = GroupDirectory(place.directory)
        self._path = socket_path(place.directory, place.number)
        self._tasks = Tasks()
        self._looking = asyncio.Lock()
        """It is taken to look at the directory: nothing is made there once this process leaves."""
        self._own: _Page | None = None
        self._server: asyncio.Server | None = None
        self._past: bytes = b""
        """What processes of this number have counted before."""
        self._making = asyncio.Lock()
        """It is taken to make this process's page and keep it."""
        self._line = asyncio.Lock()
        self._rounds = 0
        self._done = 0
        self._page = b""
        """The page that the last round has come to, which is `_done`."""
        self._is_told = False
        """One page that could not be kept is told of; the next is kept all the same."""

    async def start(self, own: _Page) -> None:
        """Answer the others from now on. `own` makes this process's page. Raises OSError."""
        await asyncio.to_thread(self._directory.hold)
        self._past = await asyncio.to_thread(_kept, self.place.directory, self.place.number)
        self._own = own
        await self._listen()
        self._tasks.spawn(self._stay(), "stay where the others look")

    async def close(self) -> None:
        """The others are answered no more."""
        if self._server is None:
            return
        async with self._looking:
            await self._tasks.cancel_all()
        self._server.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        await asyncio.to_thread(self._directory.leave)

    async def _listen(self) -> None:
        """Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()  # of the process before, which has died
        self._server = await asyncio.start_unix_server(
            self._answer, self._path, limit=LINE_BYTES_MAX
        )

    async def _stay(self) -> None:
        """For ever: what somebody else has removed of the directory is made again."""
        is_told = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._looking:
                    await self._be_found()
                is_told = False
            except (OSError, PageError) as cause:
                if not is_told:
                    log.warning("process_not_found", reason=str(cause))
                is_told = True

    async def _be_found(self) -> None:
        """Raises OSError and PageError."""
        await asyncio.to_thread(self._directory.hold)
        if await asyncio.to_thread(self._path.exists):
            return
        assert self._server is not None, "it is started"
        self._server.close()
        await self._listen()
        await self._own_page()
        log.info("process_found_again", reason="its socket was removed")

    async def page(self) -> bytes:
        """Return the page of the whole group, as of now. All who ask while the others are being
        asked share one round behind that."""
        wanted = self._rounds + 1
        async with self._line:
            if self._done < wanted:
                self._rounds += 1
                number = self._rounds
                self._page = await self._round()
                self._done = number
            return self._page

    async def answering(self) -> tuple[int, int]:
        """Return how many processes serve at the moment, this one among them, and of how many."""
        found = await asyncio.gather(*map(self._is_there, self._others()))
        return 1 + sum(found), self.place.processes

    def _others(self) -> list[int]:
        return [n for n in range(1, self.place.processes + 1) if n != self.place.number]

    async def _round(self) -> bytes:
        others = self._others()
        asking = asyncio.gather(*map(self._ask, others))
        pages = {self.place.number: await self._own_page()}
        found = await asking
        silent = []
        for number, page in zip(others, found, strict=True):
            if page is None:
                silent.append(number)
            else:
                pages[number] = page

        def work() -> bytes:
            past = [_kept(self.place.directory, number) for number in silent]
            return merged(pages, past)

        return await asyncio.to_thread(work)

    async def _own_page(self) -> bytes:
        """This process's page, with what those before it counted, kept before anybody sees it."""
        async with self._making:
            assert self._own is not None, "it is started"
            return await asyncio.to_thread(self._whole, await self._own())

    def _whole(self, page: bytes) -> bytes:
        whole = merged({self.place.number: page}, [self._past]) if self._past else page
        try:
            _keep(self.place.directory, self.place.number, whole)
        except OSError as cause:
            if not self._is_told:
                log.warning("page_not_kept", reason=str(cause))
            self._is_told = True
        return whole

    async def _ask(self, number: int) -> bytes | None:
        """The page of another process; None: it does not answer, or not with a page."""
        path = socket_path(self.place.directory, number)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
                try:
                    writer.write(ASKED)
                    length = int(await reader.readline())
                    if not 0 < length <= PAGE_BYTES_MAX:
                        raise PageError(f"a page of {length} bytes")
                    page = await reader.readexactly(length)
                finally:
                    writer.close()
            await asyncio.to_thread(merged, {number: page})
        except (OSError, EOFError, ValueError) as cause:
            log.debug("sibling_silent", sibling=number, reason=str(cause))
            return None
        return page

    async def _is_there(self, number: int) -> bool:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                path = socket_path(self.place.directory, number)
                _, writer = await asyncio.open_unix_connection(path)
                writer.close()
        except OSError:
            return False
        return True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                if await reader.readline() == ASKED:
                    page = await self._own_page()
                    writer.write(b"%d\n" % len(page))
                    writer.write(page)
                    await writer.drain()
        except (OSError, ValueError):
            pass  # whoever asked has gone, or takes too long
        finally:
            writer.close()


def _keep(directory: Path, number: int, page: bytes) -> None:
    """Raises OSError. It need not outlive the machine, as little as the group does."""
    path = page_path(directory, number)
    temporary = path.with_suffix(".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as out:
        out.write(page)
    temporary.replace(path)


def _kept(directory: Path, number: int) -> bytes:
    """The last page of a process, if there is one that can be read."""
    try:
        with page_path(directory, number).open("rb") as kept:
            page = kept.read(PAGE_BYTES_MAX)
        merged({number: page})
    except (OSError, PageError):
        return b""
    return page
