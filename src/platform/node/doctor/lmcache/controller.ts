/** LMCache's legacy controller: it has no health to ask for that changes nothing, so a lookup is the question. */
import * as z from 'zod/mini'
import { answered, ask, inShort, jsonOf, type Place, type Question } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import { expectedPlaces, type LmcacheExpected } from './expected.ts'
import { checkOpen } from './open.ts'

const lookupAnswer = z.object({ layout_info: z.record(z.string(), z.unknown()) })
const instanceAnswer = z.object({ res: z.nullish(z.string()) })

export async function examineController(name: string, place: Place, expected: LmcacheExpected | null, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const lookup: Question = { method: 'POST', path: '/lookup', body: { tokens: [1, 2, 3] }, limitMs }
  const asked = await ask(place, lookup)
  if (!answered(asked)) found.add('unreachable', 'reachable', asked.says, { costs: 'Nothing is looked up.', next: asked.next })
  else if (!lookupAnswer.safeParse(jsonOf(asked)).success) found.problem('lookup', `POST /lookup fails (${inShort(asked)})`, { costs: 'Nothing is looked up.', next: 'Is this the HTTP port of lmcache_controller (9000)?' })
  else {
    found.ok('lookup', `answered in ${asked.tookMs.toFixed(0)} ms`)
    if (expected !== null) await checkHosts(place, expected, { found, limitMs })
  }
  if (answered(asked)) await checkOpen(place, lookup, found, { costs: 'Who reaches it moves and clears what is cached.', next: 'Let only the gateway and the engines reach it.' })
  return { kind: 'controller', name, url: place.url, is: 'LMCache controller', findings: found.list }
}

async function checkHosts(place: Place, expected: LmcacheExpected, { found, limitMs }: { readonly found: Findings; readonly limitMs: number }): Promise<void> {
  for (const { id, host, instance } of expectedPlaces(expected)) {
    if (instance !== null) continue
    const asked = await ask(place, { method: 'POST', path: '/query_instance', body: { event_id: 'firstlight-doctor', ip: host }, limitMs })
    const known = instanceAnswer.safeParse(jsonOf(asked)).data?.res
    if (known) found.ok('lmcache_engines', `${id} reads ${known}`)
    else found.warn('lmcache_instance', `it knows no instance at ${host}, the host of engine ${id}`, { costs: 'Its cache is never counted.', next: `lmcache_instance in engine ${id}; or give the engine’s URL the address LMCache reports.` })
  }
}
