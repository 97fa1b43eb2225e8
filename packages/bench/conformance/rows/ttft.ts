/** The cost model of the time to first token, with one real server. */
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { alone, fitCostModel, predictTtfts, costModels } from '../fitted-cost-models.ts'
import type { Prefill } from '../fitted-cost-models.ts'
import { check, RefutedError } from '../row.ts'
import type { Finding, Lab, Row } from '../row.ts'
import { quantile } from '../../quantile.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'
import { digestEngineOf } from './decisions.ts'

const learning = 60
const judged = 100
/** Maximum number of requests that wait before the next one. */
const maxQueued = 3
const shortest = 64
const longest = 2048
/** Size of the random model's vocabulary. */
const vocabulary = 2000

export const ttftRows: readonly Row[] = [
  {
    name: 'node-ttft-model',
    says:
      `After ${learning} requests to a new server, the time to first token of ${judged} mixed ones, up to ` +
      `${maxQueued} queued, is predicted with a median error of 15 % at most, and 40 % at the 90th percentile.`,
    run: async (lab) => ttftModel(lab),
  },
]

interface MeasuredPrefill extends Prefill {
  /** Prediction of the gateway at the decision; null: none. */
  readonly predictedMs: number | null
  readonly queued: number
}

async function ttftModel(lab: Lab): Promise<Finding> {
  await lab.restart('slow-a')
  const gateway = await lab.gateway('node', 'slow')
  const talk = new Talk(generator(31))
  const taught = await traffic(lab, gateway, { talk, count: learning, what: 'learning from' })
  const { cost_model: costModel, samples, confidence } = (await digestEngineOf(gateway, 'slow-a')).learned
  const seen = await traffic(lab, gateway, { talk, count: judged, what: 'predicting' })
  const gatewayErrors = errorsOf(
    seen,
    seen.map(({ predictedMs }) => predictedMs ?? 0),
  )
  const rows = [
    line('the gateway, as it decided', gatewayErrors),
    ...Object.entries(costModels).map(([name, terms]) =>
      line(`${name}, fitted on the same ${learning}`, errorsOf(seen, predictTtfts(fitCostModel(terms, taught), seen))),
    ),
  ]
  const byQueue = Array.from({ length: maxQueued + 1 }, (_, queued) => {
    const errors = gatewayErrors.filter((_error, at) => seen[at]!.queued === queued)
    return `${queued} queued: ${percent(quantile(errors, 0.5))} of ${errors.length}`
  })
  const [median, p90] = [quantile(gatewayErrors, 0.5), quantile(gatewayErrors, 0.9)]
  const found = {
    seen:
      `median ${percent(median)}, p90 ${percent(p90)}; learned from ${samples} samples: ` +
      `${(1000 * costModel.fixed_s).toFixed(0)} ms + ${(1e6 * costModel.per_token_s).toFixed(0)} us a token + ` +
      `${(1e9 * costModel.per_pair_s).toFixed(0)} ns a pair, confidence ${confidence.toFixed(2)}`,
    detail: [
      `Model of 8 layers, one thread; prompts of ${shortest} to ${longest} tokens, half of them continuations ` +
        'of earlier ones. Error: of the time to first token at the client.',
      '',
      '| law | median error | p90 | largest |',
      '| --- | ---: | ---: | ---: |',
      ...rows,
      '',
      `The gateway's median error by queue: ${byQueue.join('; ')}. ${summaryOf(seen)}`,
    ].join('\n'),
  }
  if (median > 0.15 || p90 > 0.4) throw new RefutedError(found)
  return found
}

/** Bursts of one to four, each after the previous response. */
async function traffic(
  lab: Lab,
  gateway: RunningGateway,
  { talk, count, what }: { talk: Talk; count: number; what: string },
): Promise<MeasuredPrefill[]> {
  const seen: MeasuredPrefill[] = []
  let loggedAt = performance.now()
  while (seen.length < count) {
    const burst = Math.min(1 + Math.floor(talk.random() * (maxQueued + 1)), count - seen.length)
    const pending: Promise<MeasuredPrefill>[] = []
    for (let queued = 0; queued < burst; queued++) {
      const prompt = talk.next()
      const answering = askStream(gateway, {
        path: '/v1/completions',
        body: { model: servedModel, prompt, max_tokens: 1, temperature: 0, ignore_eos: true, cache_salt: talk.salt },
      })
      pending.push(answering.then((answer) => seenOf(answer, queued)))
      // Far enough apart to arrive in this order.
      await sleep(30)
    }
    seen.push(...(await Promise.all(pending)))
    if (performance.now() - loggedAt < 15_000) continue
    loggedAt = performance.now()
    lab.note(`  … ${what} ${seen.length} of ${count} requests`)
  }
  return seen
}

function seenOf({ prompt, cached, sentAt, firstAt, decision }: StreamAnswer, queued: number): MeasuredPrefill {
  return { total: prompt, cached, sentAt, firstAt, queued, predictedMs: decision.predicted_ttft_ms }
}

/** Prompts of token ids: new ones, and continuations of earlier ones. */
class Talk {
  readonly random: () => number
  /** A salt, so that nothing is cached from an earlier run. */
  readonly salt = `talk-${Date.now()}`
  readonly #sent: number[][] = []

  constructor(random: () => number) {
    this.random = random
  }

  next(): number[] {
    const length = Math.round(shortest * (longest / shortest) ** this.random())
    const before = this.random() < 0.5 ? this.#sent[Math.floor(this.random() * this.#sent.length)] : undefined
    const start = before === undefined || before.length > longest ? [] : before
    const added = start.length === 0 ? length : Math.max(16, Math.round(length / 4))
    const prompt = [
      ...start,
      ...Array.from({ length: added }, () => 10 + Math.floor(this.random() * (vocabulary - 10))),
    ]
    this.#sent.push(prompt)
    return prompt
  }
}

function errorsOf(seen: readonly MeasuredPrefill[], predicted: readonly number[]): number[] {
  return seen.map(({ sentAt, firstAt }, at) => Math.abs(predicted[at]! - (firstAt - sentAt)) / (firstAt - sentAt))
}

function line(costModel: string, errors: readonly number[]): string {
  check(errors.every(Number.isFinite), `${costModel}: an error is no number`)
  return (
    `| ${costModel} | ${percent(quantile(errors, 0.5))} | ${percent(quantile(errors, 0.9))} | ` +
    `${percent(Math.max(...errors))} |`
  )
}

function summaryOf(seen: readonly MeasuredPrefill[]): string {
  const times = seen.map(({ sentAt, firstAt }) => firstAt - sentAt)
  const own = alone(seen).map(({ ownMs }) => ownMs)
  const cached =
    seen.reduce((sum, prompt) => sum + prompt.cached, 0) / seen.reduce((sum, prompt) => sum + prompt.total, 0)
  return (
    `Times to first token from ${Math.round(Math.min(...times))} to ${Math.round(Math.max(...times))} ms, own ` +
    `prefills up to ${Math.round(Math.max(...own))} ms; ${percent(cached)} of the prompt tokens were cached.`
  )
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
}
