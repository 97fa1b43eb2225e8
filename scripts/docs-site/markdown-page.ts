/** A Markdown page of the repository as HTML, with the sections that the search finds. */
import { posix } from 'node:path'
import { Marked, type Tokens } from 'marked'

export interface Section {
  /** Empty: the text before the first heading. */
  readonly anchor: string
  readonly heading: string
  readonly text: string
}

export interface MarkdownPage {
  readonly title: string
  readonly html: string
  readonly sections: readonly Section[]
  readonly anchors: ReadonlySet<string>
  /** Paths of the repository that the page links to, with their anchors. */
  readonly links: readonly { readonly path: string; readonly anchor: string }[]
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Text of inline Markdown without links, code marks and emphasis. */
export const plainText = (markdown: string): string =>
  markdown
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*|]/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** Anchors as GitHub makes them. */
class Anchors {
  readonly #seen = new Map<string, number>()

  of(heading: string): string {
    const slug = heading
      .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = this.#seen.get(slug) ?? 0
    this.#seen.set(slug, before + 1)
    return before === 0 ? slug : `${slug}-${before}`
  }
}

const isExternal = (link: string): boolean => /^(?:https?:|mailto:)/.test(link)

/**
 * `path` is that of the source, such as docs/scale.md. `addressOf` gives the path of another source on the site.
 */
export function readMarkdown(path: string, text: string, addressOf: (path: string) => string): MarkdownPage {
  const anchors = new Anchors()
  const found = new Set<string>()
  const links: { path: string; anchor: string }[] = []
  const target = (href: string): string => {
    if (isExternal(href)) return href
    const [file = '', anchor = ''] = href.split('#')
    const linked = file === '' ? path : posix.normalize(posix.join(posix.dirname(path), file)).replace(/\/$/, '')
    links.push({ path: linked, anchor })
    const hash = anchor === '' ? '' : `#${anchor}`
    return `${posix.relative(posix.dirname(addressOf(path)), addressOf(linked))}${hash}`
  }
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth, text: heading }: Tokens.Heading) {
        const anchor = anchors.of(heading)
        found.add(anchor)
        return `<h${depth} id="${anchor}"><a href="#${anchor}">${this.parser.parseInline(tokens)}</a></h${depth}>\n`
      },
      link({ href, tokens }: Tokens.Link) {
        return `<a href="${escapeHtml(target(href))}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text: description }: Tokens.Image) {
        return `<img src="${escapeHtml(target(href))}" alt="${escapeHtml(description)}" loading="lazy">`
      },
    },
  })
  const html = marked
    .parse(text, { async: false })
    .replaceAll('<table>', '<div class="table"><table>')
    .replaceAll('</table>', '</table></div>')
  const title = plainText(/^# +(.*)$/m.exec(text)?.[1] ?? path)
  return { title, html, sections: sectionsOf(text), anchors: found, links }
}

function sectionsOf(text: string): Section[] {
  const anchors = new Anchors()
  const sections: { anchor: string; heading: string; lines: string[] }[] = [{ anchor: '', heading: '', lines: [] }]
  let isCode = false
  for (const line of text.split('\n')) {
    if (/^ *```/.test(line)) isCode = !isCode
    const heading = isCode ? undefined : /^#{1,6} +(.*)$/.exec(line)?.[1]
    if (heading === undefined) sections.at(-1)!.lines.push(line)
    else sections.push({ anchor: anchors.of(heading), heading: plainText(heading), lines: [] })
  }
  return sections.map(({ lines, ...section }) => ({ ...section, text: plainText(lines.join(' ')) }))
}
