// The least that a Worker can do as a gateway: pass the request on, engines in turn. PARTS names what it does besides:
// `object` asks a Durable Object first; `prompt` reads the body; `json` parses it; `end` sees the first bytes and the
// end of the stream, which workerd copies.
import { DurableObject } from 'cloudflare:workers'

let turn = 0

export class ClusterObject extends DurableObject {
  #turn = 0

  next() {
    return this.#turn++
  }
}

export class TtftObject extends DurableObject {}

export default {
  async fetch(request, env, ctx) {
    const parts = env.PARTS.split(' ')
    const engines = env.ENGINES.split(' ')
    const body = parts.includes('prompt') ? await request.arrayBuffer() : null
    if (parts.includes('json')) JSON.parse(new TextDecoder().decode(body))
    const at = parts.includes('object') ? await env.CLUSTER.getByName('one').next() : turn++
    const { pathname, search } = new URL(request.url)
    const url = engines[at % engines.length] + pathname + search
    const answering = fetch(url, body === null ? request : { method: request.method, headers: request.headers, body })
    return parts.includes('end') ? withEnd(await answering, ctx) : answering
  },
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
