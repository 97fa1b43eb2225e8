/** The index of the docs (docs/README.md) as lists of pages: for the side bar and for llms.txt. */
import { posix } from 'node:path'
import { plainText } from './markdown-page.ts'

export interface NavigationEntry {
  readonly title: string
  readonly path: string
  readonly about: string
}

export interface NavigationGroup {
  readonly title: string
  readonly entries: readonly NavigationEntry[]
}

/** Tables of the index: the first cell of a row links to the page, the second one describes it. */
export function readNavigation(index: string): NavigationGroup[] {
  return index
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      title: section.slice(0, section.indexOf('\n')).trim(),
      entries: [...section.matchAll(/^\| \[([^\]]+)\]\(([^)#\s]+)[^)]*\) \| (.*) \|$/gm)].map(
        ([, title, link, about]) => ({
          title: title!,
          path: posix.join('docs', link!),
          about: plainText(about!),
        }),
      ),
    }))
    .filter(({ entries }) => entries.length > 0)
}
