/** Text of a first configuration. */
import type { FoundEngine } from './find-engines.ts'

interface FirstConfigOptions {
  /** HOST:PORT. */
  readonly listen: string
  /** Variable with the key of the engines; null: they have none. */
  readonly engineKey: string | null
  /** Hash of the first client's key; null: the gateway is for this machine only. */
  readonly clientKeySha256: string | null
}

/**
 * One pool for the engines of each model. A server belongs to one pool: if it serves several models, they and the
 * servers that share one of them are one pool.
 */
export function firstConfig(engines: readonly FoundEngine[], options: FirstConfigOptions): string {
  const { listen, clientKeySha256 } = options
  return [
    '# Written by `firstlight init`. docs/config.md lists every key.',
    `listen: ${listen}`,
    ...(clientKeySha256 === null ? [] : access(clientKeySha256)),
    'clusters:',
    '  - id: local',
    '    pools:',
    ...groupsOf(engines).flatMap((group, at) => pool(group, `p${at}e`, options)),
    '',
  ].join('\n')
}

const access = (sha256: string): readonly string[] => [
  'keys:',
  `  - { name: client, secret: { sha256: ${sha256} } }`,
  'admin: { secret: { env: FIRSTLIGHT_ADMIN_KEY } }   # dashboard and /v1/firstlight/*',
]

/** Engines that share a model, directly or through others. */
function groupsOf(engines: readonly FoundEngine[]): readonly (readonly FoundEngine[])[] {
  const groups: FoundEngine[][] = []
  for (const engine of engines) {
    const sharing = groups.filter((group) =>
      group.some(({ models }) => models.some((model) => engine.models.includes(model))),
    )
    for (const group of sharing) groups.splice(groups.indexOf(group), 1)
    groups.push([...sharing.flat(), engine])
  }
  return groups
}

function pool(
  engines: readonly FoundEngine[],
  prefix: string,
  { engineKey }: Pick<FirstConfigOptions, 'engineKey'>,
): readonly string[] {
  const servedBy = (model: string): number => engines.filter(({ models }) => models.includes(model)).length
  const all = [...new Set(engines.flatMap(({ models }) => models))]
  const [model, ...others] = all.toSorted((a, b) => servedBy(b) - servedBy(a))
  const key = engineKey === null ? '' : `, key: { env: ${engineKey} }`
  const lineOf = ({ url, models }: FoundEngine, at: number): string => {
    const some = models.length === all.length ? '' : `, models: ${JSON.stringify(models)}`
    return `          - { id: ${prefix}${at}, url: ${JSON.stringify(url)}${some}${key} }`
  }
  return [
    `      - model: ${JSON.stringify(model)}`,
    ...(others.length === 0 ? [] : [`        adapters: ${JSON.stringify(others)}   # further models of these servers`]),
    '        engines:',
    ...engines.map(lineOf),
  ]
}
