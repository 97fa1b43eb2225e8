// The least a Worker can do for a gateway: pass the request on, engines in turn. With OBJECT it asks a Durable Object
// first, as anybody must who wants one mind to choose.
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
  async fetch(request, env) {
    const engines = env.ENGINES.split(' ')
    const at = env.OBJECT === 'yes' ? await env.CLUSTER.getByName('one').next() : turn++
    const { pathname, search } = new URL(request.url)
    return fetch(engines[at % engines.length] + pathname + search, request)
  },
}
