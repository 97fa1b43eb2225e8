/**
 * Examines another Firstlight that a cluster of the configuration refers to: whether it would serve requests and
 * exports its digest.
 */
import * as z from 'zod/mini'
import { blockingFingerprints } from '../../api/prompt/blocking-fingerprint.ts'
import { ModelRegistry } from '../../api/model-registry.ts'
import { PromptAnalyzers } from '../../api/prompt/prompt-analyzers.ts'
import { VERSION } from '../../version.ts'
import type { ClusterConfig } from '../../config.ts'
import { didYouMean } from '../../config/suggest.ts'
import { failures } from '../../failure.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import {
  othersIn,
  readRegionDigestResponse,
  type RegionDigestResponse,
} from '../../origin/regions/region-digest-response.ts'
import { REGION_DIGEST_PATH } from '../../origin/regions/region-digest-client.ts'
import { fileVocabularies } from '../../platform/node/vocabulary-files.ts'
import { openVocabularies } from '../../vocabulary.ts'
import { ask, type Endpoint, isAnswer, jsonOf, summaryOf } from './ask.ts'
import { Findings, type Subject } from './finding.ts'
import { reachOf } from './reach.ts'
import { roundTripMs } from './round-trip.ts'
import { statusOf } from './server-kind.ts'

interface RegionOptions {
  readonly limitMs: number
  /** Folder that relative vocabulary names start at. */
  readonly folder: string
}

interface RegionCheck extends RegionOptions {
  readonly cluster: ClusterConfig
  readonly place: Endpoint
  readonly found: Findings
}

/** @param place with the configured headers, and `via` as the gateway's requests have it */
export async function examineRegion(cluster: ClusterConfig, place: Endpoint, options: RegionOptions): Promise<Subject> {
  const found = new Findings()
  const check: RegionCheck = { ...options, cluster, place, found }
  const is = await softwareOf(check)
  if (is !== null && (await checkKey(check))) {
    await checkModels(check)
    const routes = new ModelRegistry({ weightedModels: [], clusters: [cluster] }).routes
    for (const route of routes) await checkDigest(check, route, routes.length > 1)
    await checkRoundTrip(check)
  }
  return { kind: 'gateway', name: cluster.id, url: place.url, is: is ?? '', findings: found.list }
}

const asks = ({ place, limitMs }: RegionCheck, path: string) => ask(place, { path, limitMs })

/** Resolves with null if no further question is useful. */
async function softwareOf(check: RegionCheck): Promise<string | null> {
  const { found } = check
  const [ready, version] = await Promise.all([asks(check, '/ready'), asks(check, '/version')])
  if (!isAnswer(ready)) {
    const next = ready.code === 'ECONNREFUSED' ? 'Check that it runs, and that this is its port.' : ready.next
    found.add('unreachable', 'reachable', ready.message, { costs: 'Requests go to other clusters.', next })
    return null
  }
  if (ready.status === failures.loop.status) {
    found.problem('reachable', 'the address leads back to the gateway of this configuration', {
      costs: 'Requests sent here loop and are refused (508).',
      next: 'Configure the address of the region’s own gateway.',
    })
    return null
  }
  const status = statusOf(ready)
  if (!/^(ready|not_ready)$/.test(status)) {
    found.problem('firstlight', `not a Firstlight gateway (/ready: ${summaryOf(ready)})`, {
      costs: 'Requests are sent there, but its predicted TTFT is unknown.',
      next: 'Configure engines in `pools`. `gateway` needs the base URL of a Firstlight gateway, without /v1.',
    })
    return null
  }
  if (status === 'ready') found.ok('ready', 'accepts requests')
  else
    found.problem('ready', `does not accept requests (${summaryOf(ready)})`, {
      costs: 'Requests go to other clusters.',
      next: 'If it drains, restart it. If it has no `keys`, configure them there.',
    })
  const read = z.object({ version: z.string() }).safeParse(jsonOf(version))
  const theirs = read.success ? read.data.version : null
  if (theirs !== null && theirs !== VERSION)
    found.note('version', `version ${theirs}, this is ${VERSION}`, {
      costs: 'If the versions divide prompts into blocks differently, its cached prefixes do not match here.',
    })
  return theirs === null ? 'Firstlight' : `Firstlight ${theirs}`
}

const KEY_OF = (id: string) => `\`gateway.key\` of cluster ${id}`

const markOf = { loopback: 'note', private: 'warning', public: 'problem' } as const

/** Resolves with false if the key was rejected. */
async function checkKey(check: RegionCheck): Promise<boolean> {
  const { cluster, place, found, limitMs } = check
  const [ours, withoutKey] = await Promise.all([
    asks(check, '/v1/models'),
    ask({ url: place.url, headers: {} }, { path: '/v1/models', limitMs }),
  ])
  const reach = reachOf(place.url)
  const isKeyed = Object.keys(place.headers).some((name) => name.toLowerCase() === 'authorization')
  if (isAnswer(ours) && (ours.status === 401 || ours.status === 403)) {
    found.problem('key', `${isKeyed ? 'the key was rejected' : 'a key is required'} (HTTP ${ours.status})`, {
      costs: 'Every request fails there.',
      next: `${KEY_OF(cluster.id)} must be the secret of one of its \`keys\`.`,
    })
    return false
  }
  if (isAnswer(withoutKey) && withoutKey.status === 200) {
    found.add(markOf[reach], 'key', `it answers without a key${reach === 'public' ? ', at a public address' : ''}`, {
      costs: 'Anyone who reaches it can use the region’s engines without this gateway.',
      next: 'Configure there: `keys: [{ name: edge, secret: …, edge: true }]`.',
    })
  } else found.ok('key', 'accepted, and required')
  if (reach === 'public' && place.url.startsWith('http:'))
    found.problem('in_the_clear', 'prompts, answers and the key are sent over http:', {
      costs: 'Anyone on the network path can read them.',
      next: 'Put TLS in front of it, and use https:.',
    })
  return true
}

async function checkModels(check: RegionCheck): Promise<void> {
  const { cluster, found } = check
  const read = z
    .object({ data: z.array(z.object({ id: z.string() })) })
    .safeParse(jsonOf(await asks(check, '/v1/models')))
  if (!read.success) return found.problem('models', '/v1/models returns no list')
  const theirs = read.data.data.map(({ id }) => id)
  const wanted = [...new Set(cluster.pools.flatMap(({ model, adapters }) => [model, ...adapters]))]
  const missing = wanted.filter((name) => !theirs.includes(name))
  if (missing.length === 0) return found.ok('models', wanted.join(', '))
  for (const name of missing) {
    found.problem('models', `does not serve ${name} to this key${didYouMean(name, theirs)}`, {
      costs: 'Requests for it return 404 there.',
      next: 'Correct the name here, or `models` of the key there.',
    })
  }
}

async function checkDigest(check: RegionCheck, route: PoolRoute, isOneOfSeveral: boolean): Promise<void> {
  const { found } = check
  const answer = await asks(check, `${REGION_DIGEST_PATH}?model=${encodeURIComponent(route.pool.model)}`)
  const of = isOneOfSeveral ? ` for ${route.pool.model}` : ''
  const blind = 'Its queue and cached prefixes are ignored; it gets the same share of requests as other regions.'
  if (!isAnswer(answer))
    return found.problem('digest', `exports no digest${of}: ${answer.message}`, {
      costs: blind,
      next: answer.next,
    })
  if (answer.status === 403)
    return found.problem('digest', `the key may not read its digest${of}`, {
      costs: blind,
      next: 'Configure there: `edge: true` on the key.',
    })
  // A model that is not served already has a finding.
  if (answer.status === 404 && answer.text.includes(failures.model_unknown.code)) return
  const all = answer.status === 200 ? readRegionDigestResponse(jsonOf(answer)) : null
  if (all === null)
    return found.problem(
      'digest',
      `exports no digest${of} (${answer.status === 200 ? 'in the format of another version' : summaryOf(answer)})`,
      { costs: blind, next: 'Run the same version on both gateways.' },
    )
  const configured = othersIn(all, check.place.headers['via'] ?? '')
  if (configured === null)
    return found.problem('digest', `all its routes lead back here${of}`, {
      costs: 'Requests go to other clusters.',
      next: 'Configure its own engines in its `clusters`, or remove the model here if it has none.',
    })
  checkEngines(configured, found, of)
  await checkBlocking(check, route, { configured: configured, of })
}

function checkEngines({ regionDigests }: RegionDigestResponse, found: Findings, of: string): void {
  if (regionDigests.length === 0)
    return found.note('digest', `has no digest of its own regions yet${of}`, {
      next: 'Retry in a few seconds.',
    })
  const [engines, requests] = [
    regionDigests.reduce((sum, one) => sum + one.engines, 0),
    regionDigests.reduce((sum, one) => sum + one.requests, 0),
  ]
  const clusters = regionDigests.length > 1 ? ` in ${regionDigests.length} clusters` : ''
  if (engines > 0)
    found.ok(
      'digest',
      `${engines} engine${engines === 1 ? '' : 's'}${clusters}${of}, ${requests} ` +
        `request${requests === 1 ? '' : 's'} running`,
    )
  else
    found.warn('digest', `no engine is available${of}`, {
      costs: 'Requests go to other clusters.',
      next: 'Run firstlight doctor --config FILE there.',
    })
}

async function checkBlocking(
  { folder, found }: RegionCheck,
  route: PoolRoute,
  { configured, of }: { readonly configured: RegionDigestResponse; readonly of: string },
): Promise<void> {
  const { tokenizer } = route.pool
  try {
    const opened = await openVocabularies(tokenizer === null ? [] : [tokenizer], fileVocabularies(folder))
    const own = blockingFingerprints(
      new PromptAnalyzers(
        () => 0,
        () => (tokenizer === null ? null : (opened.get(tokenizer) ?? null)),
      ),
    )(route)
    if (configured.fingerprint !== null && configured.fingerprint === own)
      return found.ok('cut', `prompts${of} are divided into the same blocks: its cached prefixes are known here`)
    found.warn('cut', `prompts${of} are divided into other blocks there`, {
      costs: 'Its cached prefixes do not match here, so conversations stay there only by chance.',
      next: 'Give the model the same name, `block_tokens` and `tokenizer` in both configurations.',
    })
  } catch (error) {
    found.problem('vocabulary', error instanceof Error ? error.message : String(error), {
      costs: 'The gateway on Node will not start.',
      next: 'On Workers this is a storage key, not a file: ignore this finding there.',
    })
  }
}

/** Distance in milliseconds above which a configured round trip time belongs to another place. */
const FAR_OFF_MS = 5

async function checkRoundTrip({ cluster, place, found, limitMs }: RegionCheck): Promise<void> {
  const tookMs = await roundTripMs(place, '/health', limitMs)
  if (tookMs === null) return
  const configured = cluster.gateway?.rttMs ?? null
  const measured = `${tookMs < 10 ? tookMs.toFixed(1) : Math.round(tookMs)} ms`
  if (configured === null || Math.abs(configured - tookMs) <= Math.max(FAR_OFF_MS, tookMs / 2))
    return found.ok('round_trip', `${measured} round trip from this host`)
  found.note('round_trip', `${measured} round trip from this host, ${configured} ms in the configuration`, {
    costs: 'Clusters are compared with the configured value.',
    next: 'Remove `rtt_ms` to have it measured, or run this command on the gateway’s host.',
  })
}
