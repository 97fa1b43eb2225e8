import { Failure } from '../failure.ts'

/** Path and query of a URL, absolute or not, without parsing, because it runs for every request. */
export function splitUrl(url: string): { readonly path: string; readonly query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return { path: '/', query: '' }
  const hash = url.indexOf('#', start)
  const end = hash < 0 ? url.length : hash
  const mark = url.indexOf('?', start)
  if (mark < 0 || mark > end) return { path: url.slice(start, end), query: '' }
  return { path: url.slice(start, mark), query: url.slice(mark, end) }
}

/** Validates an id in a path: malformed ids are not found, and never become part of an engine's URL. */
export function idParam(value: string | undefined, what: string): string {
  if (value !== undefined && /^[\w.:=-]{1,200}$/.test(value)) return value
  throw new Failure('not_found', `That is not the id of a ${what}.`)
}
