"""`zab image`: build the container image for `zab run --on containers` and docker-compose.yml."""

import contextlib

from zab_chaos.harness.backends.containers import engine, image
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import Exit


def image_command(base: str | None, *, json: bool) -> int:
    """Build the image and print its tag and size. Raises HarnessError."""
    console = console_for(json=json)
    with contextlib.closing(engine.connect()) as client:
        chosen = base or image.choose_base(client)
        with console.status(f"building {image.tag()} on {chosen}") as status:
            built = image.build(client, chosen, lambda line: status.update(line.replace("[", "\\[")))
        facts = {"image": image.tag(), "base": chosen, "bytes": built.attrs["Size"]}
        facts["over_base"] = facts["bytes"] - client.images.get(chosen).attrs["Size"]
    console.print(
        f"{facts['image']}, also {image.LATEST}: {facts['bytes'] / 1e6:.0f} MB, {facts['over_base'] / 1e6:.0f} MB more "
        f"than its base {chosen}",
        highlight=False,
    )
    if json:
        print_json(facts)
    return Exit.PASS
