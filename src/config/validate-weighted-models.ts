/** Rules for names that stand for several models by weight. */
import type { Config } from '../config.ts'
import { isPattern } from './alias-pattern.ts'
import { checkDuplicates } from './duplicates.ts'
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'
import { modelNames } from './pool-names.ts'
import { didYouMean } from './suggest.ts'

type WeightedModel = Config['weightedModels'][number]

export function checkWeightedModels(findings: Finding[], config: Config): void {
  const { weightedModels } = config
  checkDuplicates(
    findings,
    weightedModels.map(({ name }, at) => [name, ['weighted_models', at, 'name']]),
  )
  const paths = pathsOfNames(config)
  for (const [index, model] of weightedModels.entries()) {
    const at: Path = ['weighted_models', index]
    const taken = paths.get(model.name)
    if (taken !== undefined) findings.push({ path: [...at, 'name'], rule: `duplicates ${renderPath(taken)}` })
    if (isPattern(model.name)) findings.push({ path: [...at, 'name'], rule: 'must not be a pattern' })
    checkTargets(findings, model, { config, names: [...paths.keys()], at })
  }
}

interface TargetCheck {
  readonly config: Config
  /** Names of all pools. */
  readonly names: readonly string[]
  readonly at: Path
}

function checkTargets(findings: Finding[], { targets }: WeightedModel, { config, names, at }: TargetCheck): void {
  checkDuplicates(
    findings,
    targets.map(({ model }, entry) => [model, [...at, 'targets', entry, 'model']]),
  )
  if (targets.every(({ weight }) => weight === 0))
    findings.push({ path: [...at, 'targets'], rule: 'have no weight in all: give one of them a weight above 0' })
  const keys = (config.keys ?? []).map(({ name }) => name)
  for (const [entry, target] of targets.entries()) {
    const path = [...at, 'targets', entry]
    if (!names.includes(target.model))
      findings.push({ path: [...path, 'model'], rule: `is served by no pool${didYouMean(target.model, names)}` })
    // Keys that are made at run time come later.
    if (config.issuedKeys !== null) continue
    for (const [place, key] of target.keys.entries())
      if (!keys.includes(key))
        findings.push({ path: [...path, 'keys', place], rule: `is not the name of a key${didYouMean(key, keys)}` })
  }
}

/** Path of the pool that has each name. */
function pathsOfNames({ clusters }: Config): ReadonlyMap<string, Path> {
  return new Map(
    clusters.flatMap(({ pools, gateway }, cluster) =>
      pools.flatMap((pool, index) => {
        const place: Path = gateway === null ? ['pools', index] : ['gateway', 'models', index]
        return modelNames(pool).map((name) => [name, ['clusters', cluster, ...place]] as const)
      }),
    ),
  )
}
