/** Checks of LMCache's legacy controller. It has no health route without side effects, so a lookup is used. */
import * as z from 'zod/mini'
import { ask, type Endpoint, isAnswer, jsonOf, type Question, summaryOf } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import { expectedPlaces, type ExpectedLmcache } from './expected.ts'
import { checkOpen } from './open-access.ts'

const controllerLookupAnswer = z.object({ layout_info: z.record(z.string(), z.unknown()) })

const instanceAnswer = z.object({ res: z.nullish(z.string()) })

export async function examineController(
  name: string,
  place: Endpoint,
  expected: ExpectedLmcache | null,
  limitMs: number,
): Promise<Subject[]> {
  const found = new Findings()
  const lookup: Question = { method: 'POST', path: '/lookup', body: { tokens: [1, 2, 3] }, limitMs }
  const result = await ask(place, lookup)
  if (!isAnswer(result))
    found.add('unreachable', 'reachable', result.message, { costs: 'No lookups are possible.', next: result.next })
  else if (!controllerLookupAnswer.safeParse(jsonOf(result)).success)
    found.problem('lookup', `POST /lookup fails (${summaryOf(result)})`, {
      costs: 'No lookups are possible.',
      next: 'Check that this is the HTTP port of lmcache_controller (9000).',
    })
  else {
    found.ok('lookup', `answered in ${result.tookMs.toFixed(0)} ms`)
    if (expected !== null) await checkHosts(place, expected, { found, limitMs })
  }
  if (isAnswer(result))
    await checkOpen(place, lookup, found, {
      costs: 'Anyone who reaches it can move and clear the cache.',
      next: 'Restrict it to the gateway and the engines.',
    })
  return [{ kind: 'controller', name, url: place.url, is: 'LMCache controller', findings: found.list }]
}

async function checkHosts(
  place: Endpoint,
  expected: ExpectedLmcache,
  { found, limitMs }: { readonly found: Findings; readonly limitMs: number },
): Promise<void> {
  for (const { id, host, instance } of expectedPlaces(expected)) {
    if (instance !== null) continue
    const result = await ask(place, {
      method: 'POST',
      path: '/query_instance',
      body: { event_id: 'firstlight-doctor', ip: host },
      limitMs,
    })
    const known = instanceAnswer.safeParse(jsonOf(result)).data?.res
    if (known) found.ok('lmcache_engines', `${id} reads ${known}`)
    else
      found.warn('lmcache_instance', `no instance at ${host}, the host of engine ${id}`, {
        costs: 'Its cache is never used for routing.',
        next: `Set lmcache_instance of engine ${id}, or use the address that LMCache reports in the engine’s URL.`,
      })
  }
}
