import type { Config } from '../../config.ts'
import { REGION_VARIABLE, regionsIn } from '../../config/own-document.ts'
import { summarise, type ConfigSummary } from '../../config/summary.ts'
import { ConfigError, describeProblem } from '../../config/problem.ts'
import { versionText } from '../../config/units.ts'
import { parseYaml } from '../../config/yaml.ts'
import { CertificateFiles } from '../../platform/node/inbound/certificate-files.ts'
import { anySecret, loadConfig } from '../../platform/node/load-config.ts'
import { openVocabularies, tokenizersOf } from '../../vocabulary.ts'
import { fileVocabularies } from '../../platform/node/vocabulary-files.ts'
import { namesIn, singleAddressNote } from '../../config/discover.ts'
import { type Lookup, systemLookup } from '../../platform/node/dns-lookup.ts'
import { withTimeout } from '../../timeout.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { workerStorageNotes } from '../worker-storage.ts'
import { table } from './text-table.ts'
import { asJson, outputOf } from './output-file.ts'
export const check: Command = {
  name: 'check',
  summary: 'Validate a configuration and print the result.',
  examples: [
    'firstlight check',
    'firstlight check staging.yaml',
    'firstlight check --without-env --json parsed.json',
    'firstlight check --workers --without-env',
  ],
  positionals: '[FILE]',
  flags: {
    config: {
      type: 'string',
      short: 'c',
      value: 'FILE',
      about: 'The file, if not given as an argument. Default: firstlight.yaml.',
    },
    'without-env': { type: 'boolean', about: 'Skip the check that environment variables of secrets are set.' },
    workers: {
      type: 'boolean',
      about: 'Validate it as a Worker does, and print where it can be stored there: KV, secret, or bundled file.',
    },
    json: { type: 'string', value: 'FILE', about: 'Also write the parsed configuration as JSON, without secrets.' },
  },
  run: runCheck,
}

async function runCheck(args: Args, io: Io): Promise<number> {
  if (args.positionals.length > 1)
    throw new UsageError('firstlight check accepts one file.', `Example: firstlight check ${args.positionals[0]}`)
  const [named = null] = args.positionals
  if (named !== null && args.text('config') !== null)
    throw new UsageError(
      'firstlight check accepts one file: the argument, or --config.',
      `Example: firstlight check ${named}`,
    )
  const file = named ?? args.text('config')
  const write = outputOf(args, 'json')
  const isForWorkers = args.on('workers')
  const secrets = args.on('without-env') ? anySecret : io.env
  const { config, from, folder, text } = loadConfig(file, io.env, secrets, isForWorkers)
  const summary = summarise(config)
  io.out(`${from} is valid.\n`)
  for (const line of describe(summary)) io.out(line)
  for (const line of regionLines(args, io, text)) io.out(line)
  const notes = [
    ...summary.notes,
    ...(isForWorkers ? workerStorageNotes(text) : []),
    ...(isForWorkers ? [] : await unreadable(config, folder)),
    ...unusableCertificate(config, folder),
    ...(await singleAddressNotes(config, io.lookup ?? systemLookup)),
  ]
  for (const [index, note] of notes.entries()) io.out(`${index === 0 ? '\n' : ''}note: ${note}`)
  write(() => asJson(summary))
  return 0
}

/** The regions of one document for an edge and its regions. Throws a ConfigError if one of them is invalid. */
function regionLines(args: Args, io: Io, text: string): string[] {
  if (io.env[REGION_VARIABLE]) return []
  const regions = regionsIn(parseYaml(text).value)
  const lines = regions.map((region) => {
    const env = { ...io.env, [REGION_VARIABLE]: region }
    const file = args.positionals[0] ?? args.text('config')
    const { config } = loadConfig(file, env, args.on('without-env') ? anySecret : env, args.on('workers'))
    const { pools } = config.clusters[0]!
    const engines = pools.reduce((sum, pool) => sum + pool.engines.length, 0)
    return `region ${region} is valid, too: ${pools.map(({ model }) => model).join(', ')}; engines: ${engines}.`
  })
  return lines.length === 0 ? [] : ['', ...lines]
}

/** On Workers a vocabulary is a storage key, so a missing local file is no error of the document. */
async function unreadable(config: Config, folder: string): Promise<string[]> {
  const checks = tokenizersOf(config).map((name) =>
    openVocabularies([name], fileVocabularies(folder)).then(
      () => [],
      (error: Error) => [error.message],
    ),
  )
  return (await Promise.all(checks)).flat()
}

/** The files may exist on another machine only, so it is no error of the document. */
function unusableCertificate({ tls }: Config, folder: string): string[] {
  if (tls === null) return []
  try {
    new CertificateFiles(tls, folder).read()
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(describeProblem)
  }
}

/** A name that cannot be resolved here, such as outside the cluster, gets no note. */
async function singleAddressNotes(config: Config, lookup: Lookup): Promise<string[]> {
  const noteOf = async (name: string) =>
    singleAddressNote(name, (await withTimeout(LOOKUP_MS, lookup(name)))?.value ?? [])
  const names = [...namesIn(config).keys()].filter((name) => singleAddressNote(name, ['']) !== null)
  return (await Promise.all(names.map(noteOf))).filter((note) => note !== null)
}

/** Time limit of a lookup, milliseconds. */
const LOOKUP_MS = 2_000

function describe(summary: ConfigSummary): string[] {
  const lines = table([
    ['listen', summary.listen],
    ['callers', summary.callers],
    ['admin', summary.admin],
    ['version', versionText(summary.version)],
    ...Object.entries(summary.settings),
  ])
  for (const cluster of summary.clusters) {
    const behind = Object.entries(
      cluster.gateway === undefined
        ? {}
        : { gateway: [cluster.gateway.url, cluster.gateway.more].filter((part) => part !== '').join(', ') },
    )
    lines.push(
      '',
      `cluster ${cluster.id}${cluster.region === null ? '' : ` (${cluster.region})`}`,
      ...table([...behind, ...Object.entries(cluster.settings)].map(([name, value]) => [`  ${name}`, value])),
    )
    for (const pool of cluster.pools) {
      lines.push(`  pool ${pool.model}`)
      lines.push(...table(Object.entries(pool.settings).map(([name, value]) => [`    ${name}`, value])))
      if (cluster.gateway === undefined)
        lines.push(
          ...table([
            ['    engine', 'role', 'url', ''],
            ...pool.engines.map(({ id, role, url, more }) => [`    ${id}`, role, url, more]),
          ]),
        )
    }
  }
  return lines
}
