/** Options of the search index: the build writes it, and the page reads it, with the same ones. */
import type { Options } from 'minisearch'

export interface SearchEntry {
  readonly id: number
  /** Path on the site, with its anchor. */
  readonly address: string
  readonly title: string
  readonly heading: string
  readonly text: string
}

export const searchOptions: Options<SearchEntry> = {
  fields: ['title', 'heading', 'text'],
  storeFields: ['address', 'title', 'heading', 'text'],
  searchOptions: { boost: { title: 4, heading: 3 }, prefix: true, fuzzy: 0.15, combineWith: 'AND' },
}
