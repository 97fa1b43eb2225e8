import type { Config, LimitsConfig, TtftConfig } from '../../config.ts'

/** Settings that need a restart, with their names in the document. */
const FIXED = {
  listen: 'listen',
  tls: 'tls',
  workers: 'workers',
  replicas: 'replicas',
  epp: 'epp',
  keda: 'keda',
} as const satisfies Partial<Record<keyof Config, string>>

const FIXED_TTFT = { enabled: 'ttft.enabled', listen: 'ttft.listen' } as const satisfies Partial<
  Record<keyof TtftConfig, string>
>

const FIXED_LIMITS = { responseIds: 'limits.response_ids' } as const satisfies Partial<
  Record<keyof LimitsConfig, string>
>

interface AdoptableConfig {
  readonly config: Config
  /** Names of changed settings that need a restart. */
  readonly needsRestart: readonly string[]
}

/** Merges the settings of `next` that a process running with `running` can adopt. */
export function reloadable(running: Config, next: Config): AdoptableConfig {
  const { loopback } = running
  const limits = { ...next.limits, ...fixedOf(running.limits, FIXED_LIMITS) }
  const ttft = { ...next.ttft, ...fixedOf(running.ttft, FIXED_TTFT) }
  return {
    config: {
      ...next,
      ...fixedOf(running, FIXED),
      loopback,
      limits,
      ttft,
      version: Math.max(next.version, running.version + 1),
    },
    needsRestart: [
      ...changedNames(running, next, FIXED),
      ...changedNames(running.ttft, next.ttft, FIXED_TTFT),
      ...changedNames(running.limits, next.limits, FIXED_LIMITS),
    ],
  }
}

type Names<Of> = Readonly<Partial<Record<keyof Of, string>>>

const keysOf = <Of extends object>(names: Names<Of>) => Object.keys(names) as (keyof Of)[]

const fixedOf = <Of extends object>(running: Of, names: Names<Of>) =>
  Object.fromEntries(keysOf(names).map((part) => [part, running[part]])) as Partial<Of>

/** Names of settings that differ. */
const changedNames = <Of extends object>(running: Of, next: Of, names: Names<Of>): string[] =>
  keysOf(names)
    .filter((part) => JSON.stringify(running[part]) !== JSON.stringify(next[part]))
    .map((part) => names[part]!)
