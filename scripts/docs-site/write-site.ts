/** Writes the site: every page that can be reached from README.md, the files they show, search, llms.txt. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import MiniSearch from 'minisearch'
import { escapeHtml, readMarkdown, type MarkdownPage } from './markdown-page.ts'
import { readNavigation, type NavigationGroup } from './navigation.ts'
import { layOut } from './page-layout.ts'
import { searchOptions } from './search-options.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const here = fileURLToPath(new URL('.', import.meta.url))

/** Files that browsers show by themselves. */
const ASSETS = new Set(['.png', '.svg', '.json'])
/** Pages in the search and in llms-full.txt; the others are for contributors. */
const isForUsers = (path: string): boolean => /^(?:README|SECURITY)\.md$|^docs\//.test(path)

const isFolder = (path: string): boolean => existsSync(join(root, path)) && statSync(join(root, path)).isDirectory()

/** Where a file of the repository is on the site. */
export function addressOf(path: string): string {
  if (isFolder(path)) return join(path, 'files.html')
  if (path === 'README.md' || path.endsWith('/README.md')) return path.replace(/README\.md$/, 'index.html')
  if (path.endsWith('.md')) return path.replace(/md$/, 'html')
  return ASSETS.has(extname(path)) ? path : `${path}.html`
}

export interface WrittenSite {
  readonly pages: number
  /** As in `docs/scale.md → docs/absent.md`. */
  readonly broken: readonly string[]
}

export async function writeSite(folder: string): Promise<WrittenSite> {
  const pages = new Map<string, MarkdownPage>()
  const files = new Set<string>()
  const broken = crawl(pages, files)
  const navigation = readNavigation(read('docs/README.md'))
  rmSync(folder, { recursive: true, force: true })
  const write = (address: string, content: string | Buffer): void => {
    mkdirSync(dirname(join(folder, address)), { recursive: true })
    writeFileSync(join(folder, address), content)
  }
  const writeHtml = (path: string, title: string, content: string): void =>
    write(addressOf(path), layOut({ title, content, address: addressOf(path), navigation, addressOf }))
  for (const [path, { title, html }] of pages) {
    writeHtml(path, title, html)
    write(path, read(path))
  }
  for (const path of files) {
    if (isFolder(path)) writeHtml(path, path, folderHtml(path))
    else if (ASSETS.has(extname(path))) write(path, readFileSync(join(root, path)))
    else writeHtml(path, path, `<h1>${escapeHtml(path)}</h1><pre><code>${escapeHtml(read(path))}</code></pre>`)
  }
  write('404.html', notFound)
  write('site.css', read('scripts/docs-site/site.css'))
  write('search.js', await bundle())
  write('search-index.json', searchIndex(pages))
  write('llms.txt', llmsText(navigation))
  write('llms-full.txt', [...pages.keys()].filter(isForUsers).map(read).join('\n\n'))
  return { pages: pages.size, broken }
}

const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** Fills `pages` and `files` from README.md on. Resolves with the broken links. */
function crawl(pages: Map<string, MarkdownPage>, files: Set<string>): string[] {
  const waiting = ['README.md']
  for (const path of waiting) {
    if (pages.has(path) || files.has(path) || !existsSync(join(root, path))) continue
    if (isFolder(path)) {
      files.add(path)
      waiting.push(...filesIn(path))
    } else if (path.endsWith('.md')) {
      const page = readMarkdown(path, read(path), addressOf)
      pages.set(path, page)
      waiting.push(...page.links.map((link) => link.path))
    } else files.add(path)
  }
  return [...pages].flatMap(([path, { links }]) =>
    links
      .filter(
        ({ path: target, anchor }) =>
          !existsSync(join(root, target)) || (anchor !== '' && pages.get(target)?.anchors.has(anchor) !== true),
      )
      .map(({ path: target, anchor }) => `${path} → ${target}${anchor === '' ? '' : `#${anchor}`}`),
  )
}

const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name))

const folderHtml = (folder: string): string => {
  const links = filesIn(folder).map((path) => {
    const address = addressOf(path).slice(folder.length + 1)
    return `<li><a href="${escapeHtml(address)}">${escapeHtml(path.slice(folder.length + 1))}</a></li>`
  })
  return `<h1>${escapeHtml(folder)}</h1><ul>${links.join('')}</ul>`
}

const notFound = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Not found · Firstlight</title><link rel="stylesheet" href="/site.css">
<main><h1>This page does not exist</h1><p><a href="/docs/">Index of the documentation</a></p></main></html>
`

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(here, 'search-box.mjs')],
    bundle: true,
    minify: true,
    format: 'esm',
    write: false,
  })
  return outputFiles[0]!.text
}

function searchIndex(pages: ReadonlyMap<string, MarkdownPage>): string {
  const index = new MiniSearch(searchOptions)
  let id = 0
  for (const [path, { title, sections }] of pages) {
    if (!isForUsers(path)) continue
    for (const { anchor, heading, text } of sections) {
      if (heading === '' && text === '') continue
      index.add({
        id: id++,
        address: anchor === '' ? addressOf(path) : `${addressOf(path)}#${anchor}`,
        title,
        heading,
        text: text.slice(0, 4_000),
      })
    }
  }
  return JSON.stringify(index)
}

/** Index for language models, as llmstxt.org describes it. */
function llmsText(navigation: readonly NavigationGroup[]): string {
  const groups = navigation.map(
    ({ title, entries }) =>
      `## ${title}\n\n${entries.map((entry) => `- [${entry.title}](/${entry.path}): ${entry.about}`).join('\n')}\n`,
  )
  const about = read('README.md').split('\n\n')[1]!.replaceAll('\n', ' ')
  return `# Firstlight\n\n> ${about}\n\nAll pages in one file: [llms-full.txt](/llms-full.txt)\n\n${groups.join('\n')}`
}
