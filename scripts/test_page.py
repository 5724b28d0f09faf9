"""The page of `rankfold serve`, driven in a real browser: search, teach, see the order change,
undo, draw a digit, a narrow screen, and the keyboard alone."""

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

from playwright.sync_api import expect, sync_playwright

BINARY, PICTURES = os.path.abspath(sys.argv[1]), sys.argv[2]
# Far more than is needed: the machine may be busy.
PATIENCE = 60_000


class Service:
    """A service on a free port, until the end of the block."""

    def __init__(self, folder, *arguments):
        command = [BINARY, *arguments, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert "listening on " in line, line
        self.url = line.split("listening on ")[1].strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"the service ended with {code}"


def names(page, side):
    return page.locator(f"#{side} .name").all_inner_texts()


def rows(folder):
    """Rows of three kinds, and a similarity of them."""
    numbers = random.Random(3)
    with open(os.path.join(folder, "rows.csv"), "w") as out:
        out.write("id,label,sweet,red,round,long,green\n")
        kinds = {"apple": [1, 1, 1, 0, 0.3], "banana": [1, 0, 0, 1, 0.2], "cucumber": [0, 0, 0, 1, 1]}
        for i in range(60):
            kind = list(kinds)[i % 3]
            values = [v + numbers.gauss(0, 0.35) for v in kinds[kind]]
            out.write(f"{kind} {i // 3 + 1},{kind}," + ",".join(f"{v:.3f}" for v in values) + "\n")
    train = [BINARY, "train", "similarity", "rows.csv", "-o", "m.safetensors", "--rank", "3",
             "--steps", "200", "--seed", "1", "--score", "dot", "--normalize", "l2", "--quiet"]
    subprocess.run(train, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def search_and_teach(page, url):
    page.goto(url)
    expect(page.locator("#about")).to_contain_text("similarity", timeout=PATIENCE)
    page.fill("#id", "apple 1")
    page.click("#go")
    expect(page.locator("#before .card")).to_have_count(8, timeout=PATIENCE)
    first = names(page, "before")
    expect(page.locator("#status")).to_contain_text("8 results for apple 1")
    # Teach the last one until it is better.
    liked = first[-1]
    for _ in range(20):
        side = "after" if page.locator("#after .card").count() else "before"
        button = page.locator(f"#{side} button[aria-label='More like this: {liked}']")
        if not button.count():
            break
        before = page.locator("#sequence").inner_text()
        button.click()
        expect(page.locator("#after .card")).to_have_count(8, timeout=PATIENCE)
        expect(page.locator("#status")).to_contain_text("Learned example", timeout=PATIENCE)
        expect(page.locator("#sequence")).not_to_have_text(before, timeout=PATIENCE)
        now = names(page, "after")
        if liked in now and now.index(liked) < first.index(liked):
            break
    assert names(page, "after") != first, "the order did not change"
    assert names(page, "after").index(liked) < first.index(liked), "it did not move up"
    expect(page.locator("#after-title")).to_be_visible()
    expect(page.locator("#after .moved.up").first).to_be_visible()
    expect(page.locator("#map-section")).to_be_visible()
    taught = int(page.locator("#sequence").inner_text())
    for left in range(taught - 1, -1, -1):
        expect(page.locator("#undo")).to_be_enabled(timeout=PATIENCE)
        page.click("#undo")
        expect(page.locator("#status")).to_contain_text(f"the model is that of example {left}.", timeout=PATIENCE)
        expect(page.locator("#sequence")).to_have_text(str(left), timeout=PATIENCE)
    assert names(page, "after") == first, "undo did not bring the order back"
    expect(page.locator("#undo")).to_be_disabled(timeout=PATIENCE)
    # An error is told in words.
    page.fill("#id", "nothing")
    page.click("#go")
    expect(page.locator("#status.error")).to_have_text("no row is called `nothing`", timeout=PATIENCE)


def keyboard(page, url):
    """Search, teach and undo without a pointer."""
    page.goto(url)
    expect(page.locator("#about")).to_contain_text("similarity", timeout=PATIENCE)

    def reach(test, most=80):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate(f"() => {{ const e = document.activeElement; return {test}; }}"):
                return
        raise AssertionError(f"Tab does not reach {test}")

    reach("e.id === 'id'")
    page.keyboard.type("banana 2")
    page.keyboard.press("Enter")
    expect(page.locator("#before .card")).to_have_count(8, timeout=PATIENCE)
    reach("e.textContent === 'Not this'")
    page.keyboard.press("Enter")
    expect(page.locator("#after .card")).to_have_count(8, timeout=PATIENCE)
    expect(page.locator("#status")).to_contain_text("Learned example 1", timeout=PATIENCE)
    focused = page.evaluate("() => document.activeElement.textContent")
    assert focused == "More like this", f"focus is lost: {focused}"
    expect(page.locator("#undo")).to_be_enabled(timeout=PATIENCE)
    page.locator("#k").focus()
    reach("e.id === 'undo'")
    page.keyboard.press("Space")
    expect(page.locator("#status")).to_contain_text("Undone", timeout=PATIENCE)


def draw(page):
    """A three, in one stroke."""
    page.wait_for_selector("#pad", timeout=PATIENCE)
    box = page.locator("#pad").bounding_box()
    place = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])
    points = [(0.3 + 0.25 * math.sin(t), 0.32 - 0.2 * math.cos(t)) for t in [-0.9 + 0.2 * i for i in range(20)]]
    points += [(0.3 + 0.28 * math.sin(t), 0.7 - 0.22 * math.cos(t)) for t in [0.15 + 0.2 * i for i in range(20)]]
    page.mouse.move(*place(*points[0]))
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*place(*point))
    page.mouse.up()


def digits(page, url):
    page.goto(url)
    expect(page.locator("#about")).to_contain_text("1,000 rows", timeout=PATIENCE)
    draw(page)
    expect(page.locator("#before .card")).to_have_count(8, timeout=PATIENCE)
    expect(page.locator("#before .card svg").first).to_be_visible()
    labels = page.locator("#before .tag").all_inner_texts()
    print("a drawn 3 finds", " ".join(labels))
    assert labels.count("3") >= 4, f"few of {labels} are a 3"
    page.locator("#before button", has_text="Not this").last.click()
    expect(page.locator("#after .card")).to_have_count(8, timeout=PATIENCE)
    expect(page.locator("#sequence")).to_have_text("1", timeout=PATIENCE)


def narrow(page):
    """Nothing is wider than a phone."""
    wide = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= 400, f"the page is {wide} pixels wide"


def named(page):
    """Every control has a name for who cannot see it."""
    missing = page.evaluate("""() => [...document.querySelectorAll('input, textarea, button, canvas')]
        .filter((e) => e.offsetParent && !(e.labels && e.labels.length) && !e.getAttribute('aria-label')
            && !e.getAttribute('aria-labelledby') && !e.textContent.trim() && !e.getAttribute('aria-hidden'))
        .map((e) => e.outerHTML)""")
    assert not missing, missing


def main():
    chromium = shutil.which("chromium")
    folder = tempfile.mkdtemp()
    rows(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        errors = []

        def new(**options):
            page = browser.new_page(**options)
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda e: errors.append(str(e)))
            page.on("request", lambda r: errors.append(r.url) if not r.url.startswith(("http://127.0.0.1", "data:")) else None)
            return page

        learn = ("serve", "m.safetensors", "--rows", "rows.csv", "--learn", "--journal")
        with Service(folder, *learn, "one") as service:
            search_and_teach(new(viewport={"width": 1200, "height": 900}), service.url)
            print("search, teach, undo: good")
            keyboard(new(viewport={"width": 1200, "height": 900}), service.url)
            print("keyboard alone: good")
        with Service(folder, "demo", "--serve", "--quiet") as service:
            for scheme in ("light", "dark"):
                page = new(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
                if scheme == "light":
                    digits(page, service.url)
                    print("draw, find, teach: good")
                else:
                    page.goto(service.url)
                    draw(page)
                    expect(page.locator("#before .card")).to_have_count(8, timeout=PATIENCE)
                named(page)
                page.wait_for_timeout(1500)
                page.screenshot(path=f"{PICTURES}/wide-{scheme}.png", full_page=True)
                page.set_viewport_size({"width": 400, "height": 800})
                page.wait_for_timeout(300)
                narrow(page)
                page.screenshot(path=f"{PICTURES}/narrow-{scheme}.png", full_page=True)
        browser.close()
        assert not errors, errors
    shutil.rmtree(folder)
    print("the page: good")


main()
