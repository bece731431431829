"""What S2's official Python client does with locations: `python s2_python_locations.py URL ROOT
NAME...` against a cluster that offers the locations NAME, the last one private.

As s2_python.py: in an environment of the client's own, and ended by the first surprise.
"""

from __future__ import annotations

import asyncio
import sys

from s2_sdk import S2, Endpoints, S2ServerError

FIRST = "s2-located-first"
SECOND = "s2-located-second"


async def main(url: str, root: str, *names: str) -> None:
    first, *_, last = names
    async with S2(root, endpoints=Endpoints(url, url)) as s2:
        listed = await s2.list_locations()
        assert [each.name for each in listed] == list(names), listed
        assert [each.is_private for each in listed] == [name == last for name in names], listed
        assert await s2.get_default_location() == listed[0]
        print("locations are listed: ok")
        assert (await s2.create_basin(FIRST)).location == first
        assert await s2.set_default_location(last) == listed[-1]
        assert await s2.get_default_location() == listed[-1]
        assert (await s2.create_basin(SECOND)).location == last
        print("the default is chosen: ok")
        found = {basin.name: basin.location async for basin in s2.list_all_basins()}
        assert found == {FIRST: first, SECOND: last}, found
        assert (await s2.ensure_basin(FIRST, location=first)).basin.location == first
        for attempt in (
            s2.ensure_basin(FIRST, location=last),
            s2.create_basin("s2-located-third", location="nowhere"),
            s2.set_default_location("nowhere"),
        ):
            error = (await asyncio.gather(attempt, return_exceptions=True))[0]
            assert isinstance(error, S2ServerError), error
            assert (error.code, error.status_code) == ("invalid", 422), error
        print("a basin stays where it is: ok")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
