/**
 * Splits the feed's text: the JSON of the last complete view, and the rest. Of several views that arrive together only
 * the last is rendered.
 */
export function lastView(text: string): { readonly json: string | null; readonly rest: string } {
  const events = text.split('\n\n')
  const rest = events.pop()!
  const data = events
    .at(-1)
    ?.split('\n')
    .find((line) => line.startsWith('data: '))
  return { json: data?.slice('data: '.length) ?? null, rest }
}
