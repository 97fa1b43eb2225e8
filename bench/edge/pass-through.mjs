// The least a Worker can do for a gateway: pass the request on, engines in turn. With OBJECT `yes` it asks a Durable
// Object
// first, as anybody must who wants one mind to choose; with `books` it also reads the prompt, sees the first bytes
// come, and
// notices the end, as anybody must who keeps books: all else passes natively.
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
    const engines = env.ENGINES.split(' ')
    const body = env.OBJECT === 'books' ? await request.arrayBuffer() : null
    const at = env.OBJECT === 'no' ? turn++ : await env.CLUSTER.getByName('one').next()
    const { pathname, search } = new URL(request.url)
    const url = engines[at % engines.length] + pathname + search
    return body === null
      ? fetch(url, request)
      : withBooks(await fetch(url, { method: request.method, headers: request.headers, body }), ctx)
  },
}

async function withBooks(response, ctx) {
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
