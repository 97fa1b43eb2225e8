import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import { Failure } from '../failure.ts'
import { readJson } from './body.ts'
import { refuseDraining, type Door } from './door.ts'
import type { Endpoint } from './endpoints.ts'
import { DoorExchange, refuseWishes, type Understood } from './exchange.ts'
import { readFields, readWishes, type Fields } from './fields.ts'
import { readForm } from './form.ts'
import type { Holding } from '../ports.ts'
import type { Incoming } from './incoming.ts'
import type { Caller } from './keys.ts'

/** A POST that goes to an engine: the door's whole story, in order. */
export async function proxy(door: Door, endpoint: Endpoint, incoming: Incoming): Promise<Response> {
  const caller = await door.keeper.caller(incoming.request.headers, endpoint.shape === 'anthropic')
  incoming.line['tenant'] = caller.tenant
  refuseDraining(door)
  const understood = await understand(door, endpoint, incoming, caller)
  const exchange = new DoorExchange(door, understood, door.ports.random())
  if (endpoint.held) exchange.onResponseId = keepResponse(door, understood)
  incoming.line['model'] = understood.model
  incoming.line['stream'] = exchange.stream
  return door.forward(exchange)
}

/** Reads and checks a request up to the point where it could be routed. */
export async function understand(door: Door, endpoint: Endpoint, incoming: Incoming, caller: Caller): Promise<Understood> {
  const { form } = endpoint
  const { limits } = door.config
  const { request, memory } = incoming
  const body = form ? await readForm(request, limits, memory) : await readJson(request, limits, { parseLong: door.ports.parseLong, memory })
  const { json } = body
  // A form's fields are texts: of them only these two are the gateway's.
  const fields = readFields(form ? { model: json['model'], stream: json['stream'] } : json)
  const wishes = readWishes(form ? null : json, incoming.request.headers.get('x-firstlight-options'))
  refuseWishes(wishes, caller)
  const holding = endpoint.held ? await holdingOf(door, fields, caller) : null
  const model = modelOf(door, fields, caller, holding)
  const offer = door.catalog.offer(model, caller)
  const routes = holding === null ? offer.routes : [routeOf(door, holding)]
  return { incoming, endpoint, caller, body, fields, wishes, model, routes, pinned: holding }
}

function modelOf(door: Door, fields: Fields, caller: Caller, holding: Holding | null): string {
  if (fields.model) return fields.model
  if (holding !== null) return holding.model
  throw new Failure('model_missing', `The request names no model. ${door.catalog.hint(caller)}`, { param: 'model' })
}

async function holdingOf(door: Door, fields: Fields, caller: Caller): Promise<Holding | null> {
  const id = fields.previous_response_id
  if (id === undefined || id === null) return null
  const holding = await door.held.find(id, caller.tenant)
  if (holding !== null) return holding
  throw new Failure(
    'not_found',
    `This gateway does not know which engine holds response '${id.slice(0, 100)}': it was never served here, or is forgotten. Send the conversation again in \`input\`, without previous_response_id.`,
    { param: 'previous_response_id' },
  )
}

export function routeOf(door: Door, holding: Holding): PoolRoute {
  const route = door.catalog.route(holding.cluster, holding.pool)
  if (route !== null && route.targets.has(holding.engine)) return route
  throw new Failure('not_found', 'The engine that held this response is no longer part of the fleet. Send the conversation again in `input`.')
}

function keepResponse(door: Door, { caller, model, routes }: Understood): NonNullable<Exchange['onResponseId']> {
  return ({ cluster, engine }, id) => {
    const route = routes.find((one) => one.cluster.id === cluster && one.targets.has(engine))
    if (route === undefined) return
    door.held.keep(id, { tenant: caller.tenant, cluster, pool: route.pool.model, engine, model })
  }
}
