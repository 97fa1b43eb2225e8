/** /metrics against requests with known outcomes, counted by the client that sent them, on any runtime. */
import http from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StageTimes } from '../../src/core/contract/stages.ts'
import { METRICS } from '../../src/telemetry/metrics.ts'
import { FaultEngine, type Mode } from '../kit/fault-engine.ts'
import { labelsOf, metricsMarkdown } from '../../scripts/metrics-docs.ts'
import { type Family, parseExposition } from '../telemetry/parse-exposition.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const KEY = 'scrape-key-for-tests'
const boss = { authorization: 'Bearer boss-key-for-tests' }

type Families = ReadonlyMap<string, Family>
type Labels = Readonly<Record<string, string>>

/** Sum over all samples with these labels; 0 without samples. */
function sum(families: Families, name: string, labels: Labels = {}): number {
  const family = families.get(name.replace(/_(?:count|sum|bucket)$/, '')) ?? families.get(name)
  const fits = (own: Labels) => Object.entries(labels).every(([label, value]) => own[label] === value)
  return (family?.samples ?? [])
    .filter((sample) => sample.name === name && fits(sample.labels))
    .reduce((total, { value }) => total + value, 0)
}

const stagesOf = (families: Families) =>
  new Set((families.get('firstlight_stage_seconds')?.samples ?? []).map(({ labels }) => labels['stage']!))

interface Ask {
  readonly mode?: Mode
  readonly stream?: boolean
  readonly model?: string
  /** Disconnects after the first bytes. */
  readonly leave?: boolean
  readonly tokens?: number
  /** Disconnects when this has resolved. */
  readonly holdsFor?: () => Promise<unknown>
}

/** Each kind of request and its count. */
const STORY = {
  streams: { count: 5, ask: { stream: true } },
  long: { count: 2, ask: { stream: true, tokens: 9 } },
  whole: { count: 3, ask: {} },
  broken: { count: 2, ask: { stream: true, mode: 'reset_midstream' } },
  refused: { count: 2, ask: { stream: true, mode: '500_but_healthy' } },
  unknown: { count: 3, ask: { model: 'no-such-model' } },
  /** The last kind: the client's disconnect may be detected late on some runtimes. */
  left: { count: 2, ask: { stream: true, tokens: 20_000, leave: true } },
  /** Sent while a held stream fills the only engine of its pool. */
  full: { count: 2, ask: { model: 'narrow', tokens: 20_000 } },
} as const satisfies Record<string, { readonly count: number; readonly ask: Ask }>

/** One more fills the narrow pool. */
const LEFT = STORY.left.count + 1
const PASSED =
  LEFT +
  STORY.streams.count +
  STORY.long.count +
  STORY.whole.count +
  STORY.broken.count +
  STORY.refused.count +
  STORY.full.count

export function metricsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`metrics of ${name}`, () => {
    let engines: FaultEngine[]
    let gateway: RunningGateway
    let families: Families
    /** Responses that clients received, by status class. */
    const answers: Record<string, number> = {}
    const records: { readonly durationMs: number; readonly stages: StageTimes }[] = []
    const reported: { readonly id: string; readonly queueMs: number; readonly computeMs: number }[] = []

    function ask(
      id: string,
      { stream = false, model = 'm', leave = false, mode = 'ok', tokens = 4, holdsFor }: Ask,
    ): Promise<void> {
      for (const engine of engines) Object.assign(engine, { mode, tokens })
      const body = JSON.stringify({
        model,
        stream,
        ...(stream ? { stream_options: { include_usage: true } } : {}),
        messages: [{ role: 'user', content: `hello ${id}` }],
      })
      return new Promise((resolve) => {
        const request = http.request(
          `${gateway.url}/v1/chat/completions`,
          { method: 'POST', agent: false, headers: { 'content-type': 'application/json', 'x-request-id': id } },
          (response) => {
            const status = `${Math.floor(response.statusCode! / 100)}xx`
            if (model !== STORY.unknown.ask.model) answers[status] = (answers[status] ?? 0) + 1
            response.once(
              'data',
              () => leave && void (holdsFor?.() ?? Promise.resolve()).finally(() => request.destroy()),
            )
            response.on('error', () => {})
            response.on('close', () => resolve())
          },
        )
        request.on('error', () => resolve())
        request.end(body)
      })
    }

    async function scrape(): Promise<Families> {
      const answer = await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
      expect(answer.status).toBe(200)
      return parseExposition(await answer.text())
    }

    beforeAll(async () => {
      engines = await Promise.all(['a', 'b'].map((id) => FaultEngine.open(id)))
      gateway = await startRuntime(runtime, {
        version: Date.now(),
        open: true,
        admin: { secret: boss.authorization.slice('Bearer '.length) },
        metrics: { key: KEY },
        log: { level: 'silent' },
        // Lets every runtime detect a client that left.
        limits: { heartbeat_ms: 100 },
        ttft: { enabled: true },
        clusters: [
          {
            id: 'c',
            pools: [
              {
                model: 'm',
                policy: 'round_robin',
                observe_share: 1,
                circuit: { failures: 1_000 },
                retry: { min_per_s: 1_000 },
                engines: engines.map(({ id, url }) => ({ id, url })),
              },
            ],
          },
          {
            id: 'n',
            pools: [
              { model: 'narrow', observe_share: 1, engines: [{ id: 'a', url: engines[0]!.url, max_in_flight: 1 }] },
            ],
          },
        ],
      })
      const { full, ...rest } = STORY
      for (const [kind, { count, ask: init }] of Object.entries(rest))
        for (let at = 0; at < count; at++) await ask(`${kind}-${at}`, init)
      const turnedAway = async () => {
        for (let at = 0; at < full.count; at++) await ask(`full-${at}`, full.ask)
      }
      await ask('held-0', { ...STORY.left.ask, model: full.ask.model, holdsFor: turnedAway })
      for (let at = 0; at < STORY.streams.count; at++) {
        const report = { id: `streams-${at}`, queueMs: at, computeMs: 10 * at }
        reported.push(report)
        const partial = {
          role: 'pd',
          request_id: `chatcmpl-${report.id}`,
          prefill_queue_time_ms: report.queueMs,
          prefill_compute_time_ms: report.computeMs,
        }
        // Twice: the second call changes nothing.
        for (let times = 0; times < 2; times++)
          expect(
            (await fetch(`${gateway.url}/ttft_report`, { method: 'POST', body: JSON.stringify(partial) })).status,
          ).toBe(200)
      }
      // Records follow the responses. A missing one runs into the time limit of this hook.
      await until(async () => {
        families = await scrape()
        return (
          sum(families, 'firstlight_requests_total') >= PASSED &&
          sum(families, 'firstlight_stage_seconds_count', { stage: 'reported_ttft' }) >= reported.length
        )
      }, 100)
      const { unknown: _, ...passed } = STORY
      for (const [kind, { count }] of [...Object.entries(passed), ['held', { count: 1 }] as const]) {
        for (let at = 0; at < count; at++) {
          const about = (await (
            await fetch(`${gateway.url}/v1/firstlight/requests/${kind}-${at}`, { headers: boss })
          ).json()) as { record: { duration_ms: number }; stages_ms: StageTimes }
          records.push({ durationMs: about.record.duration_ms, stages: about.stages_ms })
        }
      }
    })

    afterAll(async () => {
      await gateway.close()
      await Promise.all(engines.map((engine) => engine.close()))
    })

    it('the metrics page counts each request once, by how it ended', () => {
      const byResult = (result: string) => sum(families, 'firstlight_requests_total', { result })
      const { streams, long, whole, broken, refused, full } = STORY
      expect(byResult('complete')).toBe(streams.count + long.count + whole.count)
      expect(byResult('client_gone')).toBe(LEFT)
      expect(byResult('engine_failed')).toBe(broken.count)
      expect(byResult('refused')).toBe(refused.count + full.count)
      expect(answers['4xx']).toBe(full.count)
      for (const status of ['2xx', '4xx', '5xx'])
        expect([status, sum(families, 'firstlight_responses_total', { status })]).toEqual([status, answers[status]])
      expect(sum(families, 'firstlight_responses_total')).toBe(PASSED)
    })

    it('the metrics page counts tokens as the engines did', () => {
      const { streams, long, whole } = STORY
      const requests = streams.count + long.count + whole.count
      expect(sum(families, 'firstlight_generation_tokens_total')).toBe(
        4 * (streams.count + whole.count) + 9 * long.count,
      )
      expect(sum(families, 'firstlight_prompt_tokens_total')).toBe(3 * requests)
      expect(sum(families, 'firstlight_prompt_tokens_cached_total')).toBe(0)
      expect(sum(families, 'firstlight_prompt_tokens_judged_total')).toBe(3 * requests)
    })

    it('the metrics page counts attempts as the engines saw them', () => {
      const arrived = engines.reduce((all, { requests }) => all + requests, 0)
      expect(sum(families, 'firstlight_decisions_total')).toBe(arrived)
      expect(sum(families, 'firstlight_refusals_total', { reason: 'engines_full' })).toBe(STORY.full.count)
      expect(sum(families, 'firstlight_engine_bookings_total')).toBe(arrived)
      for (const { id, requests } of engines)
        expect([id, sum(families, 'firstlight_engine_bookings_total', { engine: id })]).toEqual([id, requests])
      expect(sum(families, 'firstlight_retries_total')).toBe(arrived - (PASSED - STORY.full.count))
      expect(sum(families, 'firstlight_placements_total', { placement: 'whole' })).toBe(arrived)
      expect(sum(families, 'firstlight_failed_attempts_total')).toBe(2 * STORY.refused.count)
      expect(sum(families, 'firstlight_engine_num_requests')).toBe(0)
      expect(sum(families, 'firstlight_engine_active_blocks')).toBe(0)
    })

    it('the metrics page has in each histogram as many as there were, and their sum', () => {
      const histogram = (metric: string, labels: Labels = {}) =>
        [sum(families, `${metric}_count`, labels), sum(families, `${metric}_sum`, labels)] as const
      const seen = (values: readonly number[]) => [
        values.length,
        expect.closeTo(values.reduce((all, ms) => all + ms, 0) / 1000, 6),
      ]
      const ttfts = records.flatMap(({ stages }) => stages.ttft ?? [])
      const { streams, long, broken } = STORY
      expect(ttfts).toHaveLength(streams.count + long.count + LEFT + broken.count)
      expect(histogram('gen_ai_server_time_to_first_token_seconds')).toEqual(seen(ttfts))
      expect(histogram('gen_ai_server_request_duration_seconds')).toEqual(
        seen(records.map(({ durationMs }) => durationMs)),
      )
      expect(records).toHaveLength(PASSED)
      for (const stage of ['edge', 'tokens', 'admit', 'connect', 'first_byte'] as const) {
        expect(histogram('firstlight_stage_seconds', { stage })).toEqual(
          seen(records.flatMap(({ stages }) => stages[stage] ?? [])),
        )
      }
      expect(histogram('firstlight_stage_seconds', { stage: 'prefill_queue' })).toEqual(
        seen(reported.map(({ queueMs }) => queueMs)),
      )
      expect(histogram('firstlight_stage_seconds', { stage: 'prefill_compute' })).toEqual(
        seen(reported.map(({ computeMs }) => computeMs)),
      )
      expect(histogram('firstlight_stage_seconds', { stage: 'reported_ttft' })).toEqual(
        seen(reported.map(({ queueMs, computeMs }) => queueMs + computeMs)),
      )
      expect(histogram('gen_ai_server_time_per_output_token_seconds')[0]).toBe(streams.count + long.count)
    })

    it('the metrics page counts requests that were refused before an engine was chosen', () => {
      expect(sum(families, 'firstlight_rejected_requests_total', { reason: 'model_unknown' })).toBe(STORY.unknown.count)
      expect(families.has('firstlight_dropped_records_total')).toBe(true)
    })

    it('the metrics page exports only documented metrics with documented labels', () => {
      const documented = new Map(METRICS.map((metric) => [metric.name, labelsOf(metric)]))
      for (const [metric, { samples }] of families) {
        for (const { labels } of samples)
          expect([metric, ...Object.keys(labels).filter((label) => label !== 'le')]).toEqual([
            metric,
            ...(documented.get(metric) ?? ['undocumented']),
          ])
      }
      const prose = metricsMarkdown()
      for (const stage of stagesOf(families)) expect(prose).toContain(`\`${stage}\``)
    })

    it('the metrics page never decreases a counter between scrapes', async () => {
      const later = await scrape()
      for (const [metric, { type, samples }] of families) {
        if (type === 'gauge') continue
        for (const { name: full, labels, value } of samples)
          expect([full, labels, sum(later, full, labels) >= value]).toEqual([full, labels, true])
        expect(later.has(metric)).toBe(true)
      }
    })
  })
}
