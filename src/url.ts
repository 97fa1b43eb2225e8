/** Parts of URLs: hosts, ports, paths. */

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

/** A path without its query. */
export function withoutQuery(path: string): string {
  const mark = path.indexOf('?')
  return mark < 0 ? path : path.slice(0, mark)
}

/** Host without the brackets of an IPv6 address, as sockets and resolvers expect it. */
export const urlHost = ({ hostname }: Pick<URL, 'hostname'>): string => hostname.replace(/^\[|\]$/g, '')

/** Host of a base URL, as in `urlHost`. Throws if the text is not a URL. */
export const hostOf = (url: string): string => urlHost(new URL(url))

/**
 * Key that distinguishes servers: headers distinguish data-parallel ranks behind one address, and a `binding` leads
 * into a separate network.
 */
export function hostPort(
  { url, headers }: { readonly url: string; readonly headers: Readonly<Record<string, unknown>> },
  binding: string | null = null,
): string {
  return JSON.stringify([new URL(url).href.replace(/\/+$/, ''), binding, Object.entries(headers).sort()])
}

/** Whether a host in lower case is the allowed one; `*.example.com` allows every host below `example.com`. */
export const matchesHost = (host: string, allowed: string): boolean =>
  allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed
