/** Path of a request without its query: what is learned of an endpoint counts for all queries. */
export function withoutQuery(path: string): string {
  const at = path.indexOf('?')
  return at < 0 ? path : path.slice(0, at)
}
