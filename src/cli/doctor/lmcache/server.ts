/** Checks of an LMCache server (`lmcache server`): open endpoints, and reports to the coordinator. */
import * as z from 'zod/mini'
import { ask, type Endpoint, isAnswer, jsonOf, summaryOf } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import { checkOpen } from './open-access.ts'

const config = z.object({
  mp: z.nullish(z.object({ run_script_api_enabled: z.nullish(z.boolean()), instance_id: z.nullish(z.string()) })),
  coordinator: z.nullish(z.object({ url: z.nullish(z.string()), event_reporting: z.nullish(z.boolean()) })),
})

export async function examineLmcacheServer(name: string, place: Endpoint, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const [health, configAnswer] = await Promise.all([
    ask(place, { path: '/healthcheck', limitMs }),
    ask(place, { path: '/config', limitMs }),
  ])
  if (!isAnswer(health)) found.add('unreachable', 'reachable', health.message, { next: health.next })
  else if (health.status !== 200)
    found.problem('health', `/healthcheck returns ${health.status}`, { next: 'See its log.' })
  else found.ok('health', `/healthcheck 200 in ${health.tookMs.toFixed(0)} ms`)
  const read = config.safeParse(jsonOf(configAnswer))
  if (read.success) judge(read.data, found)
  else if (isAnswer(health)) found.note('config', `/config is not readable (${summaryOf(configAnswer)})`)
  if (isAnswer(health))
    await checkOpen(place, { path: '/healthcheck', limitMs }, found, {
      costs: 'Anyone who reaches it can read and empty the cache.',
      next: 'Restrict it to its engines and its coordinator.',
    })
  return { kind: 'lmcache server', name, url: place.url, is: 'LMCache server', findings: found.list }
}

function judge({ mp, coordinator }: z.infer<typeof config>, found: Findings): void {
  if (mp?.run_script_api_enabled === true) {
    found.problem('run_script', 'POST /run_script runs any Python code', {
      costs: 'Anyone who reaches the port controls the host.',
      next: 'Start it without --run-script-api-enabled.',
    })
  } else found.ok('run_script', 'off')
  if (!coordinator?.url)
    found.note('coordinator', 'does not report to a coordinator', {
      costs: 'Its entries cannot be looked up.',
      next: '--coordinator-url URL --coordinator-event-reporting',
    })
  else if (coordinator.event_reporting !== true)
    found.warn('coordinator', `registers at ${withoutPath(coordinator.url)} but reports no events`, {
      costs: 'Every lookup is empty.',
      next: '--coordinator-event-reporting',
    })
  else found.ok('coordinator', `reports to ${withoutPath(coordinator.url)}`)
}

/** Removes the path, which contains the token if a gateway is the registry. */
const withoutPath = (url: string): string => (URL.canParse(url) ? new URL(url).origin : 'its coordinator')
