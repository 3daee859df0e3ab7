"""`zab zookeeper`: which releases of Apache ZooKeeper are known, and getting one."""

from rich.table import Table

from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit


def list_command(*, json: bool) -> int:
    """Show the known releases, and which of them are on this machine."""
    found = [{"version": version, "here": releases.is_cached(version)} for version in releases.known()]
    if json:
        print_json(found)
        return Exit.PASS
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in found:
        table.add_row(
            str(one["version"]), "here" if one["here"] else "[dim]zab zookeeper fetch {version}[/]".format(**one)
        )
    console = console_for(json=json)
    console.print(table)
    console.print("\nAny other released version can be fetched too.", highlight=False)
    return Exit.PASS


def fetch_command(version: str, *, json: bool) -> int:
    """Put a release into the cache. Raises BadInput, HarnessError."""
    if not releases.VERSION.fullmatch(version):
        raise BadInput(f"{version!r} is no version; one is {releases.newest()}")
    console = console_for(json=json)
    with console.status(f"fetching ZooKeeper {version}") as status:
        release = releases.locate(version, lambda jar: status.update(f"fetching {jar}"))
    folder = releases.cached(version)
    size = sum(jar.stat().st_size for jar in folder.iterdir())
    console.print(
        f"ZooKeeper {version}: {len(release.classpath) - 1} jars, {size / 1e6:.0f} MB, in {folder}", highlight=False
    )
    if json:
        print_json({"version": version, "folder": str(folder), "bytes": size})
    return Exit.PASS
