/** Predicted time to first token while many conversations run at the same time on two real servers. */
import { loadavg } from 'node:os'
import { prefer } from '../prefer.ts'
import type { RunningProcess } from '../processes.ts'
import { using } from '../standalone.ts'
import { servedModel } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { check, RefutedError } from '../row.ts'
import type { Finding, Lab, Row } from '../row.ts'
import { quantile } from '../../quantile.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'
import { words } from './routing.ts'

/** Requests that teach the gateway, by their order of sending. */
const learning = 60
const judged = 160
const maxMedian = 0.15
const maxP90 = 0.4

/** Two engines on a core each: alone there, or the second one beside a process that takes half of its core. */
type Shares = 'equal' | 'uneven'

const says = (abreast: number, engines: string): string =>
  `With ${abreast} conversations at the same time on ${engines}, after ${learning} requests, the time to first ` +
  `token of ${judged} turns is predicted with a median error of ${100 * maxMedian} % at most, and ` +
  `${100 * maxP90} % at the 90th percentile.`

export const predictionRows: readonly Row[] = [
  ...[8, 32].map((abreast) => ({
    name: `node-ttft-of-${abreast}`,
    says: says(abreast, 'two engines'),
    run: async (lab: Lab) => predictions(lab, abreast, 'equal'),
  })),
  ...[8, 32].map((abreast) => ({
    name: `node-ttft-uneven-of-${abreast}`,
    says: says(abreast, 'two engines, one of which has half of a core,'),
    run: async (lab: Lab) => {
      await lab.engine('slow-b')
      return using(takeHalfACore(lab), () => predictions(lab, abreast, 'uneven'))
    },
  })),
]

/** Uses the core of `slow-b`, at the same priority. */
function takeHalfACore({ processes }: Lab): RunningProcess {
  const command = ['taskset', '-c', '1', process.execPath, '-e', 'for (;;);']
  return processes.start({ what: 'half of a core', command, folder: process.cwd() })
}

type History = { role: string; content: string }[]

async function predictions(lab: Lab, abreast: number, shares: Shares): Promise<Finding> {
  const gateway = await lab.gateway('node', 'slow-pair', `-${shares}-of-${abreast}`)
  const loads: number[] = []
  const preferred = prefer([process.pid, gateway.process.pid])
  const answers = await talk(gateway, abreast, () => {
    loads.push(loadavg()[0]!)
    if (loads.length % 50 === 0) lab.note(`  … ${loads.length} of ${learning + judged} requests`)
  }).finally(preferred.end)
  const seen = answers.slice(learning)
  const errors = seen.map(errorOf)
  const [median, p90] = [quantile(errors, 0.5), quantile(errors, 0.9)]
  const load = `load average ${quantile(loads, 0).toFixed(1)} to ${quantile(loads, 0.999).toFixed(1)}`
  const found: Finding = {
    figures: { real_error_median: median, real_error_p90: p90 },
    seen: `median ${percent(median)}, p90 ${percent(p90)}; ${load}; ${preferred.how}`,
    detail: `${sharesOf(seen)}\n\n${detailOf(seen, `${load} on this machine, engines included; ${preferred.how}`)}`,
  }
  if (median > maxMedian || p90 > maxP90) throw new RefutedError(found)
  return found
}

/** Each conversation sends its next turn when it has the answer, until all turns are sent. In order of sending. */
async function talk(gateway: RunningGateway, abreast: number, done: () => void): Promise<StreamAnswer[]> {
  const salt = `of-${abreast}-${Date.now()}`
  const random = generator(100 + abreast)
  const shared = words(random, 15)
  const answers: StreamAnswer[] = []
  let sent = 0
  const converse = async (): Promise<void> => {
    let history: History = []
    for (let turn = 0; sent < learning + judged; turn++) {
      sent++
      // After five turns another user begins.
      if (turn % 5 === 0) history = [{ role: 'system', content: `${shared} ${words(random, 100)}` }]
      history.push({ role: 'user', content: words(random, 10 + Math.floor(random() * 40)) })
      const body = { model: servedModel, messages: history, max_tokens: 16, temperature: 0, ignore_eos: true }
      const one = await askStream(gateway, { path: '/v1/chat/completions', body: { ...body, cache_salt: salt } })
      check(one.decision.predicted_ttft_ms !== null, 'a decision has no prediction')
      history.push({ role: 'assistant', content: one.text })
      answers.push(one)
      done()
    }
  }
  await Promise.all(Array.from({ length: abreast }, converse))
  return answers.sort((one, other) => one.sentAt - other.sentAt)
}

/** Requests by engine, with the median time to first token. */
function sharesOf(seen: readonly StreamAnswer[]): string {
  const ids = [...new Set(seen.map(({ engine }) => engine))].toSorted()
  const parts = ids.map((id) => {
    const own = seen.filter(({ engine }) => engine === id)
    return `${own.length} at \`${id}\` (median ${ms(quantile(own.map(actualOf), 0.5))})`
  })
  return `Requests: ${parts.join(', ')}.`
}

const actualOf = ({ sentAt, firstAt }: StreamAnswer): number => firstAt - sentAt
const errorOf = (one: StreamAnswer): number => Math.abs(one.decision.predicted_ttft_ms! - actualOf(one)) / actualOf(one)

function detailOf(seen: readonly StreamAnswer[], load: string): string {
  const sorted = [...seen].sort((one, other) => one.decision.predicted_ttft_ms! - other.decision.predicted_ttft_ms!)
  const quarters = Array.from({ length: 4 }, (_, at) =>
    sorted.slice((at * sorted.length) / 4, ((at + 1) * sorted.length) / 4),
  )
  const times = seen.map(actualOf)
  return [
    `Model of 8 layers, one thread each; 16 output tokens. ${load}. Times to first ` +
      `token ${ms(quantile(times, 0.1))} (p10), ${ms(quantile(times, 0.5))} (p50), ${ms(quantile(times, 0.9))} (p90).`,
    '',
    '| quarter by prediction | predicted, median ms | measured, median ms | median error | p90 |',
    '| --- | ---: | ---: | ---: | ---: |',
    ...quarters.map((quarter, at) => {
      const errors = quarter.map(errorOf)
      const predicted = quarter.map((one) => one.decision.predicted_ttft_ms!)
      return (
        `| ${at + 1} | ${Math.round(quantile(predicted, 0.5))} | ${Math.round(quantile(quarter.map(actualOf), 0.5))} | ` +
        `${percent(quantile(errors, 0.5))} | ${percent(quantile(errors, 0.9))} |`
      )
    }),
  ].join('\n')
}

const ms = (time: number): string => `${Math.round(time)} ms`
const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
