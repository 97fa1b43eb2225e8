/** A Firstlight gateway, where somebody meant an engine or wants to know both. */
import { ask, type Place } from './ask.ts'
import { Findings, type Subject } from './finding.ts'
import { statusOf } from './kind.ts'

export async function examineGateway(name: string, place: Place, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const ready = await ask(place, { path: '/ready', limitMs })
  if (statusOf(ready) === 'ready') found.ok('ready', 'it takes requests')
  else found.problem('ready', 'it takes no requests', { next: 'GET /ready says why; its log says more.' })
  found.note('behind_it', 'not looked at', { next: 'firstlight doctor --config FILE examines its engines.' })
  return { kind: 'gateway', name, url: place.url, is: 'Firstlight gateway', findings: found.list }
}
