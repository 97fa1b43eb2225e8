import type { Offer } from './catalog.ts'
import type { Door } from './door.ts'
import { answerJson, type Incoming } from './incoming.ts'

/** Models as the configuration names them; no engine is asked on the way. */
export async function listModels(door: Door, incoming: Incoming): Promise<Response> {
  const caller = await door.keeper.caller(incoming.request.headers, true)
  return answerJson(incoming, { object: 'list', data: door.catalog.offers(caller).map((offer) => modelCard(offer, door.startedAt)) })
}

export async function oneModel(door: Door, incoming: Incoming, name: string): Promise<Response> {
  const caller = await door.keeper.caller(incoming.request.headers, true)
  return answerJson(incoming, modelCard(door.catalog.offer(name, caller), door.startedAt))
}

/** vLLM's card without what only an engine knows. `parent` is set on adapters, as vLLM does; an alias names its model in `root`. */
function modelCard({ name, kind, base }: Offer, startedAt: number): unknown {
  return {
    id: name,
    object: 'model',
    created: Math.floor(startedAt / 1000),
    owned_by: 'firstlight',
    root: kind === 'adapter' ? name : base,
    parent: kind === 'adapter' ? base : null,
  }
}
