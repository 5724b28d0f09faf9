"""Makes the search of the documentation site work without any network.

    python3 scripts/docs_offline.py SITE

Pages that are opened as files load a small program for their search from elsewhere. This puts it
into the site: the package `iframe-worker` (MIT) of the npm registry, by its checksum.
"""

import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

SOURCE = "https://registry.npmjs.org/iframe-worker/-/iframe-worker-1.0.4.tgz"
CHECKSUM = "e8c5d12d87829c503afba01d67772ea9f4aba5b7ae57a0c98e1917711030efbb"
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"


def main():
    site = Path(sys.argv[1])
    kept = site.parent / "iframe-worker.tgz"
    if not kept.exists():
        try:
            kept.write_bytes(urllib.request.urlopen(SOURCE, timeout=60).read())
        except OSError as error:
            print(f"{SOURCE}: {error}; pages that are opened as files have no search offline", file=sys.stderr)
            return
    package = kept.read_bytes()
    if hashlib.sha256(package).hexdigest() != CHECKSUM:
        kept.unlink()
        raise SystemExit(f"{SOURCE}: not the package that is expected")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        program = archive.extractfile("package/shim/index.js").read()
    place = site / "assets" / "iframe-worker.js"
    place.write_bytes(program)
    for page in site.rglob("*.html"):
        text = page.read_text()
        page.write_text(text.replace(ELSEWHERE, os.path.relpath(place, page.parent)))


main()
