"""What MkDocs does not know of this repository: the list of pages, tabs, and links to its files."""

import os
import re
import textwrap
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FORGE = "https://github.com/lumenhook/lumenhook/blob/main/"
ITEM = re.compile(r"- \[([^\]]+)\]\(([^)]+)\)")
ITEM_OF_LIST = re.compile(r"(\d+\.|-) +")
LANGUAGE = re.compile(r"^In (\w+): (.*)\n\n(```[\s\S]*?^```)\n", re.M)
LANGUAGES = re.compile(rf"(?:{LANGUAGE.pattern}\n?){{2,}}", re.M)
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def anchor(text, separator):
    """The anchor that a forge gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def on_config(config):
    """The navigation is the list in docs/README.md: its headings, and items that begin with a link."""
    nav, section = [{"Home": "docs/README.md"}], None
    for line in (REPOSITORY / "docs/README.md").read_text().splitlines():
        if line.startswith("## "):
            section = []
            nav.append({line[3:]: section})
        elif section is not None and (item := ITEM.match(line)):
            target = os.path.normpath(f"docs/{item[2]}")
            if target == "schemas/openapi.yaml":
                target = "schemas/docs.html"
            section.append({item[1]: target})
    config.nav = nav
    config.mdx_configs["toc"]["slugify"] = anchor
    return config


def indented(markdown):
    """What belongs to an item of a list, indented by four as MkDocs needs it, and not as a forge does."""
    lines, width, fenced = [], 0, False
    for line in markdown.splitlines():
        item = ITEM_OF_LIST.match(line)
        if line.startswith("```"):
            fenced, width = not fenced, 0
        elif not fenced and item:
            width = len(item[0])
        elif not fenced and width and line.startswith(" " * width):
            line = " " * 4 + line[width:]
        elif line:
            width = 0
        lines.append(line)
    return "\n".join(lines)


def tabs(shown):
    """Code that a page shows in several languages, one after another, as tabs."""
    return "".join(
        f'=== "{name}"\n\n' + textwrap.indent(f"{text}\n\n{code}\n\n", "    ")
        for name, text, code in LANGUAGE.findall(shown[0])
    )


def on_page_markdown(markdown, page, config, files):
    """Links to files that are not on the site lead to the forge, if there is such a file."""

    def leads(link):
        target = os.path.normpath(os.path.join(os.path.dirname(page.file.src_uri), link[2]))
        if ":" in link[2] or files.get_file_from_path(target) or not (REPOSITORY / target).exists():
            return link[0]
        return link[1] + FORGE + target + link[3]

    return LINK.sub(leads, LANGUAGES.sub(tabs, indented(markdown)))
