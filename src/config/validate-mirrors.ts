/** Rules for mirror traffic: targets that exist, and no loops. */
import type { Config } from '../config.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { modelNames } from './pool-names.ts'
import { didYouMean } from './suggest.ts'

/** Base models of the pools that serve each name. */
type ModelsByName = ReadonlyMap<string, ReadonlySet<string>>

/** The mirror of a pool. */
interface PoolMirror {
  readonly model: string
  readonly to: string
  readonly path: Path
}

export function checkMirrors(findings: Finding[], config: Config): void {
  const byName = modelsByName(config)
  const mirrors = poolMirrors(config)
  const known: PoolMirror[] = []
  for (const mirror of mirrors) {
    const rule = targetRule(mirror.to, byName, config)
    if (rule !== null) findings.push({ path: mirror.path, rule })
    else if (byName.get(mirror.to)!.has(mirror.model))
      findings.push({ path: mirror.path, rule: `is a name of this pool itself, ${mirror.model}: name another pool` })
    else known.push(mirror)
  }
  checkLoops(findings, known, byName)
  for (const [index, { name, mirror }] of config.weightedModels.entries()) {
    if (mirror === null) continue
    const path = ['weighted_models', index, 'mirror', 'to']
    const rule =
      mirror.to === name
        ? 'is this weighted model itself: name a model of a pool'
        : targetRule(mirror.to, byName, config)
    if (rule !== null) findings.push({ path, rule })
  }
}

/** null: a pool serves the name. */
function targetRule(to: string, byName: ModelsByName, { weightedModels }: Config): string | null {
  if (byName.has(to)) return null
  if (weightedModels.some(({ name }) => name === to)) return 'is a weighted model: name a model of a pool'
  return `is served by no pool${didYouMean(to, [...byName.keys()])}`
}

/** A loop is reported once, at its first pool. */
function checkLoops(findings: Finding[], mirrors: readonly PoolMirror[], byName: ModelsByName): void {
  const inLoops = new Set<string>()
  for (const { model, path } of mirrors) {
    if (inLoops.has(model)) continue
    const loop = loopFrom([model], mirrors, byName)
    if (loop === null) continue
    for (const one of loop) inLoops.add(one)
    findings.push({ path, rule: `closes a loop of mirrors: ${[...loop, model].join(' → ')}` })
  }
}

/** Models from the first one back to it. null: it is in no loop. */
function loopFrom(way: readonly string[], mirrors: readonly PoolMirror[], byName: ModelsByName): string[] | null {
  const nexts = mirrors.filter(({ model }) => model === way.at(-1)).flatMap(({ to }) => [...byName.get(to)!])
  if (nexts.includes(way[0]!)) return [...way]
  for (const next of nexts) {
    const loop = way.includes(next) ? null : loopFrom([...way, next], mirrors, byName)
    if (loop !== null) return loop
  }
  return null
}

const poolMirrors = ({ clusters }: Config): PoolMirror[] =>
  clusters.flatMap(({ pools, gateway }, cluster) =>
    pools.flatMap(({ model, mirror }, index) => {
      const place: Path = gateway === null ? ['pools', index] : ['gateway', 'models', index]
      return mirror === null
        ? []
        : [{ model, to: mirror.to, path: ['clusters', cluster, ...place, 'mirror', 'to'] as Path }]
    }),
  )

function modelsByName({ clusters }: Config): ModelsByName {
  const models = new Map<string, Set<string>>()
  for (const pool of clusters.flatMap(({ pools }) => pools))
    for (const name of modelNames(pool)) models.set(name, (models.get(name) ?? new Set()).add(pool.model))
  return models
}
