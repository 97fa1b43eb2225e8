/**
 * Firstlight beside the gateways of today over HTTP, in front of the same engines. Real time; about 20 minutes on two
 * idle cores. docs/measurements/peers.md has the results.
 * `npm run bench -- peers [MOONCAKE.jsonl AGENTIC.jsonl] [--peers FOLDER] [--only cost,ttft,llm-d] [--json FILE]`
 *
 * Further flags: --gateways smg:cache_aware,nginx (only Firstlight and these) · --pairs 9 (cost) · --scenario WORD (cost:
 * scenarios with it in their name) · --requests 800 (ttft, of each trace; without traces generated ones) · --time-scale 4
 * (ttft: engines and traffic run so many times faster) · --max-s 180 (ttft: no request of a gateway starts later)
 * · --streams 512 (llm-d: no more at once)
 *
 * Install SMG and vllm-router each in an environment of its own, and nginx on the path:
 * `python3 -m venv FOLDER/v-smg && FOLDER/v-smg/bin/pip install smg==1.13.0`,
 * `python3 -m venv FOLDER/v-vllm && FOLDER/v-vllm/bin/pip install vllm-router==0.1.17`.
 * Dynamo's frontend runs with its own simulated workers: `ai-dynamo==1.6.1` in FOLDER/v-dynamo, and a model's folder
 * without weights (tokenizer and configuration) as FOLDER/dynamo-model. Without `--peers` the other programs are taken
 * from the path. A peer that does not start is skipped with its reason, and the figures against it are left out.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type GatewaySite, OWN } from './peers/gateways.ts'
import { measureCost } from './peers/cost.ts'
import { measureLlmdShape } from './peers/llm-d.ts'
import { measureFirstTokens } from './peers/first-token.ts'
import type { BenchOptions, BenchResult } from './result.ts'

type Part = (site: Omit<GatewaySite, 'engines' | 'model'>, options: BenchOptions) => Promise<BenchResult>

const PAIRS = 9
const REQUESTS = 800
const TIME_SCALE = 4
const MAX_S = 180
const MAX_STREAMS = 512

const PARTS: Readonly<Record<string, Part>> = {
  cost: (site, { flags }) =>
    measureCost(site, { pairs: Number(flags['pairs'] ?? PAIRS), scenario: String(flags['scenario'] ?? '') }),
  ttft: (site, { flags, args }) =>
    measureFirstTokens(site, {
      files: args,
      requests: Number(flags['requests'] ?? REQUESTS),
      timeScale: Number(flags['time-scale'] ?? TIME_SCALE),
      maxS: Number(flags['max-s'] ?? MAX_S),
    }),
  'llm-d': (site, { flags }) => measureLlmdShape(site, Number(flags['streams'] ?? MAX_STREAMS)),
}

export default async function peers(options: BenchOptions): Promise<BenchResult> {
  const { flags, note } = options
  const names = typeof flags['only'] === 'string' ? flags['only'].split(',') : Object.keys(PARTS)
  const unknown = names.find((name) => !Object.hasOwn(PARTS, name))
  if (unknown !== undefined) throw new Error(`--only: "${unknown}" is none of ${Object.keys(PARTS).join(', ')}.`)
  const work = mkdtempSync(join(tmpdir(), 'firstlight-peers-'))
  const installed = typeof flags['peers'] === 'string' ? flags['peers'] : null
  try {
    const results: BenchResult[] = []
    for (const name of names)
      results.push(
        await PARTS[name]!({ work: join(work, name), installed, chosen: chosenOf(flags['gateways']), note }, options),
      )
    return {
      rows: results.flatMap(({ rows }) => rows),
      headline: Object.assign({}, ...results.map(({ headline }) => headline)) as BenchResult['headline'],
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Firstlight and the gateways of a list, such as `smg:cache_aware,nginx`; all without one. */
function chosenOf(list: string | true | undefined): (name: string) => boolean {
  const names = typeof list === 'string' ? [OWN, ...list.split(',')] : null
  return (name) => names?.includes(name) ?? true
}
