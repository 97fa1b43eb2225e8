/** HTML around the content of a page. */
import { posix } from 'node:path'
import { escapeHtml } from './markdown-page.ts'
import type { NavigationGroup } from './navigation.ts'

interface LayoutParts {
  readonly title: string
  readonly content: string
  /** Path of the page on the site, such as docs/scale.html. */
  readonly address: string
  readonly navigation: readonly NavigationGroup[]
  readonly addressOf: (path: string) => string
}

export function layOut({ title, content, address, navigation, addressOf }: LayoutParts): string {
  const to = (other: string): string => posix.relative(posix.dirname(address), other)
  const groups = navigation.map(({ title: group, entries }) => {
    const links = entries.map((entry) => {
      const isHere = addressOf(entry.path) === address
      return `<li><a href="${to(addressOf(entry.path))}"${isHere ? ' aria-current="page"' : ''}>${escapeHtml(entry.title)}</a></li>`
    })
    const isOpen = entries.some((entry) => addressOf(entry.path) === address)
    return `<details${isOpen ? ' open' : ''}><summary>${escapeHtml(group)}</summary><ul>${links.join('')}</ul></details>`
  })
  const root = to('.') === '' ? '.' : to('.')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Firstlight</title>
<link rel="stylesheet" href="${to('site.css')}">
<script type="module" src="${to('search.js')}" data-root="${root}/"></script>
</head>
<body>
<header>
<a class="name" href="${to('index.html')}">Firstlight</a>
<div class="search" role="search">
<input type="search" placeholder="Search" aria-label="Search the documentation" aria-controls="results" autocomplete="off">
<ol id="results" hidden></ol>
</div>
<a href="${to('docs/index.html')}">Documentation</a>
</header>
<div class="columns">
<nav aria-label="Pages">${groups.join('')}</nav>
<main>${content}</main>
</div>
</body>
</html>
`
}
