/** Sends requests to a real engine and records the exchanges. */
import { engineKey } from './engine.ts'
import { send } from './http.ts'
import { normalise, rules } from './normaliser.ts'
import { formType } from './form.ts'
import { encodeBody, keptOf, requestBody } from './vector.ts'
import type { Exchange, RecordedRequest, VectorFile } from './vector.ts'

/** The request id is the exchange's name, so that ids which the engine derives from it are constant. */
export async function record(url: string, name: string, request: RecordedRequest, key = engineKey): Promise<Exchange> {
  const authorization =
    request.key === 'none' ? {} : { authorization: `Bearer ${request.key === 'wrong' ? 'other' : key}` }
  const headers = {
    'x-request-id': name,
    ...(request.form === undefined ? {} : { 'content-type': formType }),
    ...request.headers,
  }
  const sent = requestBody(request)
  const answer = await send({
    url,
    method: request.method,
    path: request.path,
    headers: { ...authorization, ...headers },
    ...(sent === null ? {} : { body: sent }),
  })
  const body = normalise(answer.body.toString('utf8'))
  return {
    name,
    request: { ...request, headers },
    response: {
      status: answer.status,
      headers: keptOf(answer.headers),
      ...encodeBody(body, answer.headers['content-type'] ?? ''),
    },
  }
}

/** Number of attempts to get a stream with one token per event: a busy machine merges tokens. */
const STREAM_LOOKS = 6

/** The stream with the most events, of several attempts. */
export async function recordFinest(url: string, name: string, request: RecordedRequest): Promise<Exchange> {
  let finest = await record(url, name, request)
  for (let look = 1; look < STREAM_LOOKS && finest.response.sse !== undefined; look++) {
    const next = await record(url, name, request)
    if ((next.response.sse?.length ?? 0) > finest.response.sse.length) finest = next
  }
  return finest
}

/** One after the other: the cache state is part of the result. */
export async function recordAll(url: string, requests: Readonly<Record<string, RecordedRequest>>): Promise<Exchange[]> {
  const exchanges: Exchange[] = []
  for (const [name, request] of Object.entries(requests)) exchanges.push(await record(url, name, request))
  return exchanges
}

export function vectorFile(
  about: string,
  version: string,
  flags: readonly string[],
  exchanges: readonly Exchange[],
): VectorFile {
  return { engine: { name: 'vllm', version, flags }, about, normalised: rules.map((rule) => rule.name), exchanges }
}
