// The least that a Worker can do as a gateway: pass the request on, engines in turn. PARTS names what it does besides:
// `object` asks a Durable Object first; `admit` does so with arguments and an answer like those of an admission, and
// with the two events of an earlier request; `prompt` reads the body; `json` parses it; `hash` hashes its blocks; `end`
// sees the first bytes and the end of the stream, which workerd copies.
import { DurableObject } from 'cloudflare:workers'

let turn = 0
/** Events of ended requests, which the next call sends. */
const events = []

export class ClusterObject extends DurableObject {
  #turn = 0

  next() {
    return this.#turn++
  }

  admit({ id }, _events) {
    return { engine: this.#turn++, key: id, decision: { id, policy: 'predicted', costs: [1, 2, 3, 4] } }
  }
}

export class TtftObject extends DurableObject {}

export default {
  async fetch(request, env, ctx) {
    const parts = env.PARTS.split(' ')
    const engines = env.ENGINES.split(' ')
    const body = parts.includes('prompt') ? await request.arrayBuffer() : null
    if (parts.includes('json')) JSON.parse(new TextDecoder().decode(body))
    const blocks = parts.includes('hash') ? blocksOf(new Uint8Array(body)) : new Uint32Array(8)
    const at = parts.includes('admit')
      ? await admitted(env, blocks)
      : parts.includes('object')
        ? await env.CLUSTER.getByName('one').next()
        : turn++
    const { pathname, search } = new URL(request.url)
    const url = engines[at % engines.length] + pathname + search
    const answering = fetch(url, body === null ? request : { method: request.method, headers: request.headers, body })
    return parts.includes('end') ? withEnd(await answering, ctx) : answering
  },
}

async function admitted(env, blocks) {
  const id = crypto.randomUUID()
  const { engine, key } = await env.CLUSTER.getByName('one').admit(
    { id, attempt: 0, model: 'fake', promptTokens: 250, expectedOutputTokens: 100, priority: null, blocks },
    events.splice(0, 8),
  )
  events.push(['first_token', key, { tookMs: 10 }], ['release', key, { result: 'complete', status: 200 }])
  return engine
}

/** Chained hashes of blocks of 256 bytes, four bytes at a time. */
function blocksOf(bytes) {
  const words = new Uint32Array(bytes.buffer, 0, bytes.length >> 2)
  const blocks = new Uint32Array((words.length >> 6) * 2)
  let hash = 1
  for (let i = 0, at = 0; at < blocks.length; i++) {
    hash = Math.imul(hash ^ words[i], 0x9e3779b1)
    hash ^= hash >>> 15
    if ((i & 63) === 63) {
      blocks[at++] = hash
      blocks[at++] = i
    }
  }
  return blocks
}

async function withEnd(response, ctx) {
  const reader = response.body.getReader()
  const { value } = await reader.read()
  reader.releaseLock()
  const { readable, writable } = new IdentityTransformStream()
  const writer = writable.getWriter()
  writer.write(value).catch(() => {})
  writer.releaseLock()
  ctx.waitUntil(response.body.pipeTo(writable, { preventAbort: true, preventCancel: true }))
  return new Response(readable, response)
}
