/**
 * Attacks and faults before real gateway processes (`bin/firstlight.mjs serve`) on loopback, with fake engines
 * in processes of their own.
 * Each figure stands beside its goal. The attacks are those of an examination that found defects; see
 * SECURITY.md for the limits that bound them.
 *
 * Flags: --only uploads,memory,lateness,victim,recovery,decode-only,silent-readers,refused,aborting-key
 * (default: all; the headline has the figures that were measured)
 * Exit code 1 when a headline figure misses its goal.
 */
import { fileURLToPath } from 'node:url'
import { bundleNode } from '../../scripts/bundle-node.ts'
import { abortingKey } from './attacks/aborting-key.ts'
import { decodeOnly } from './attacks/decode-only.ts'
import { rowOf, worst, type Figure } from './attacks/figure.ts'
import { lateness } from './attacks/lateness.ts'
import { memory } from './attacks/memory.ts'
import { recovery } from './attacks/recovery.ts'
import { refused } from './attacks/refused.ts'
import { silentReaders } from './attacks/silent-readers.ts'
import { stall } from './attacks/stall.ts'
import { victim } from './attacks/victim.ts'
import type { BenchOptions, BenchResult } from './result.ts'

type Attack = (note: (line: string) => void) => Promise<Figure[]>

/**
 * Attacks of one step run at the same time; those that take the machine, or measure single milliseconds, have
 * a step of their own.
 */
const STEPS: readonly Readonly<Record<string, Attack>>[] = [
  { uploads: stall },
  { memory },
  { lateness },
  {
    victim,
    recovery,
    'decode-only': decodeOnly,
    'silent-readers': silentReaders,
    refused,
    'aborting-key': abortingKey,
  },
]

const HEADLINE = [
  'stall_ms_max',
  'victim_failures',
  'recovery_s_max',
  'decode_only_refused',
  'own_lateness_failures',
  'forged_ejections',
] as const

export default async function attacks({ flags, note }: BenchOptions): Promise<BenchResult> {
  const only = typeof flags['only'] === 'string' ? flags['only'].split(',') : null
  const known = STEPS.flatMap((step) => Object.keys(step))
  const unknown = only?.find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new Error(`--only: there is no attack named '${unknown}'. Attacks: ${known.join(', ')}.`)
  // bin/firstlight.mjs runs the bundle while it is younger than the sources.
  await bundleNode(fileURLToPath(new URL('../../dist/node', import.meta.url)))
  const figures: Figure[] = []
  for (const step of STEPS) {
    const chosen = Object.entries(step).filter(([name]) => only === null || only.includes(name))
    const results = await Promise.all(
      chosen.map(async ([name, attack]) => {
        note(`${name} …`)
        const result = await attack(note)
        note(`${name}: done`)
        return result
      }),
    )
    figures.push(...results.flat())
  }
  const measured = HEADLINE.filter((name) => figures.some(({ figure }) => figure === name))
  if (
    figures.some(
      ({ figure, value, goal }) => (HEADLINE as readonly string[]).includes(figure) && !((value ?? Infinity) <= goal!),
    )
  )
    process.exitCode = 1
  return {
    rows: figures.map(rowOf),
    headline: Object.fromEntries(measured.map((name) => [name, worst(figures, name)])),
  }
}
