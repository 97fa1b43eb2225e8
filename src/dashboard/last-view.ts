/** What has come of the feed: the JSON of the last whole view, and what follows it. Of several that came at once only the last one is worth drawing. */
export function lastView(text: string): { readonly json: string | null; readonly rest: string } {
  const events = text.split('\n\n')
  const rest = events.pop()!
  const data = events
    .at(-1)
    ?.split('\n')
    .find((line) => line.startsWith('data: '))
  return { json: data?.slice('data: '.length) ?? null, rest }
}
