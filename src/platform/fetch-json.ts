/** Fetches a small JSON document from a service that is no engine, on any platform. */

/** Time limit, ms. */
const LIMIT_MS = 5_000
/** Longest document, bytes. */
const LIMIT_BYTES = 1024 * 1024

/** GET of a JSON document. Rejects after 5 s, for a status other than 2xx, and beyond 1 MiB. */
export async function fetchJson(url: string): Promise<unknown> {
  const answer = await fetch(url, {
    headers: { accept: 'application/json' },
    // A redirect could lead to an address that is not configured.
    redirect: 'manual',
    signal: AbortSignal.timeout(LIMIT_MS),
  })
  if (!answer.ok) {
    await answer.body?.cancel()
    throw new Error(`${url} answered ${answer.status}`)
  }
  let text = ''
  let bytes = 0
  const decoder = new TextDecoder()
  const reader = (answer.body ?? new ReadableStream<Uint8Array>()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return JSON.parse(text + decoder.decode()) as unknown
    bytes += value.length
    if (bytes > LIMIT_BYTES) {
      await reader.cancel()
      throw new Error(`${url} answered more than ${LIMIT_BYTES} bytes`)
    }
    text += decoder.decode(value, { stream: true })
  }
}
