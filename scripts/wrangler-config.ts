/** Configuration for wrangler from wrangler.toml and an untracked file with names, ids and regions. */

type Table = Readonly<Record<string, unknown>>

export interface DeploymentConfig {
  /** Configuration for `wrangler --config`. The top level is the Worker that clients call. */
  readonly config: Table
  /** Environments in the order of deployment: the regions that the front binds. */
  readonly regions: readonly string[]
}

/** Settings that wrangler does not pass on to environments, and that each Worker of the bundle needs. */
const NEEDED = ['durable_objects', 'version_metadata', 'define']

/**
 * Merges the two files. Each `[env.NAME]` of the local file becomes a region: a Worker without a public name, which the
 * front reaches by the service binding REGION_NAME. Throws an Error for a region without placement.
 * @param documented regions of the document, each of which an environment serves by its name
 */
export function deploymentConfig(base: Table, local: Table, documented: readonly string[] = []): DeploymentConfig {
  const { env = {}, ...rest } = local
  const regions = env as Readonly<Record<string, Table>>
  const top: Table = rest
  const name = String(top['name'] ?? base['name'])
  const names = Object.keys(regions)
  for (const region of documented)
    if (!names.includes(region))
      throw new Error(`firstlight.yaml has the region ${region}, and wrangler.local.toml no [env.${region}].`)
  const missing = documented.length === 0 ? undefined : names.find((one) => !documented.includes(one))
  if (missing !== undefined)
    throw new Error(
      `wrangler.local.toml has [env.${missing}], and firstlight.yaml no cluster ${missing} with pools and a gateway.`,
    )
  const services = names.map((region) => ({
    binding: regionBinding(region),
    service: String(regions[region]!['name'] ?? `${name}-${region}`),
  }))
  const needed = Object.fromEntries(NEEDED.map((key) => [key, base[key]]))
  if (names.length > 0 && top['placement'] !== undefined)
    throw new Error(
      'wrangler.local.toml: with regions, the front runs near its clients. Remove the top-level placement.',
    )
  // wrangler warns of a list that an environment lacks.
  const lists = Object.keys(top).filter((key) => Array.isArray(top[key]))
  const own = { ...Object.fromEntries([...lists, 'services'].map((key) => [key, []])), ...needed }
  const environments = Object.fromEntries(
    names.map((region) => {
      const vars = documented.includes(region) ? { FIRSTLIGHT_REGION: region } : {}
      return [region, { ...own, ...withVars(regionEnv(region, regions[region]!), vars) }]
    }),
  )
  const ownServices = (top['services'] as readonly unknown[] | undefined) ?? []
  const { $schema: _, ...tracked } = base
  const config = {
    ...tracked,
    ...top,
    ...(names.length === 0 ? {} : { services: [...ownServices, ...services], env: environments }),
  }
  return { config, regions: names }
}

const withVars = (environment: Table, vars: Table): Table =>
  Object.keys(vars).length === 0
    ? environment
    : { ...environment, vars: { ...(environment['vars'] as Table), ...vars } }

function regionEnv(name: string, given: Table): Table {
  if (given['placement'] === undefined)
    throw new Error(
      `wrangler.local.toml: env.${name} has no placement. Write: placement = { region = "aws:eu-central-1" }`,
    )
  return { workers_dev: false, preview_urls: false, ...given }
}

/** Name of the front's service binding to a region. */
export const regionBinding = (region: string): string => `REGION_${region.toUpperCase().replaceAll('-', '_')}`
