/** Operations of the admin API. Tests compare them with the routes. */
import type * as z from 'zod/mini'
import { decision, dryRun } from './decision.ts'
import { drain, pause, resume } from './engine-commands.ts'
import { fleet } from './fleet.ts'
import { ready } from './gateway.ts'
import { keyRequest, keys, newKey, revokedKey } from './key.ts'
import { request } from './request.ts'
import { usage } from './usage.ts'
import { weightedModels } from './weighted-model.ts'

export interface Operation {
  readonly summary: string
  /** Component of a 200 response. Absent: `media`. */
  readonly response?: z.ZodMiniType
  readonly media?: string
  /** Absent: the operation needs the admin key. */
  readonly isPublic?: true
  readonly query?: Readonly<Record<string, string>>
  /** `schema`: its component; absent: not described here. */
  readonly body?: { readonly description: string; readonly schema?: z.ZodMiniType }
}

const JSON_MEDIA = 'application/json'

const engineCluster = 'Cluster of the engine, if its name is ambiguous, or of a region that has the engine.'
const regionCluster = 'Cluster of the engine at the gateway of its region, if its name is ambiguous there.'
const poolCluster = 'Cluster of the pool. Default: all that have it.'

/** By method and path. */
export const operations: Readonly<Record<string, Operation>> = {
  'get /health': { summary: 'Liveness.', media: JSON_MEDIA, isPublic: true },
  'get /ready': { summary: 'Readiness; 503 while draining.', response: ready, isPublic: true },
  'get /version': { summary: 'Version.', media: JSON_MEDIA, isPublic: true },
  'get /metrics': { summary: 'Metrics in Prometheus text format.', media: 'text/plain' },
  'get /openapi.json': { summary: 'This document.', media: JSON_MEDIA, isPublic: true },
  'get /v1/firstlight/fleet': { summary: 'Every pool and engine with their state.', response: fleet },
  'get /v1/firstlight/live': {
    summary: 'Server-sent events: one view of the fleet per second.',
    media: 'text/event-stream',
  },
  'get /v1/firstlight/usage': { summary: 'Requests, tokens and costs of each key, team and model.', response: usage },
  'get /v1/firstlight/weighted-models': {
    summary: 'Targets of weighted models: state, and results since the start.',
    response: weightedModels,
  },
  'get /v1/firstlight/keys': { summary: 'Keys of clients, without secrets.', response: keys },
  'post /v1/firstlight/keys': {
    summary: 'Creates a key. Only this response contains its secret.',
    response: newKey,
    body: { description: 'Name and rights of the key, as in `keys` of the configuration.', schema: keyRequest },
  },
  'delete /v1/firstlight/keys/{id}': {
    summary: 'Revokes a key that was created at run time.',
    response: revokedKey,
  },
  'post /v1/firstlight/route': {
    summary: 'Dry run: ranks the request in the body without sending it.',
    response: dryRun,
    query: { endpoint: 'Path of the request, such as /v1/completions. Default: /v1/chat/completions.' },
    body: { description: 'Body of an inference request.' },
  },
  'get /v1/firstlight/decisions/{id}': { summary: 'One routing decision with its candidates.', response: decision },
  'get /v1/firstlight/requests/{id}': { summary: 'One request: decision, stages, record.', response: request },
  'post /v1/firstlight/engines/{id}/drain': {
    summary: 'Removes an engine from routing. Running requests continue.',
    response: drain,
    query: {
      cluster: engineCluster,
      region_cluster: regionCluster,
      deadline_s: 'Seconds after which streams that can be continued move to another engine.',
    },
  },
  'post /v1/firstlight/pools/{id}/pause': {
    summary: 'Holds the requests of a pool back and pauses its engines. 502: an engine could not be paused.',
    response: pause,
    query: {
      mode: 'What happens to running requests: wait, abort or keep.',
      timeout_s: 'Longest wait for running requests, seconds. Default: 300.',
      cluster: poolCluster,
    },
  },
  'post /v1/firstlight/pools/{id}/resume': {
    summary: 'Resumes a paused pool. Answers that would mix two versions of the weights end or are generated again.',
    response: resume,
    query: {
      weights: 'compare (default): versions that differ or are unknown count as changed. same: nothing changed.',
      cluster: poolCluster,
    },
  },
  'post /v1/firstlight/engines/{id}/undrain': {
    summary: 'Returns an engine to routing.',
    response: drain,
    query: { cluster: engineCluster, region_cluster: regionCluster },
  },
}
