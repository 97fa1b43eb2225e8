import { existsSync, writeFileSync } from 'node:fs'
import { parseConfigText } from '../../config/parse.ts'
import { isLoopback } from '../../config/address.ts'
import { anySecret, sha256 } from '../../platform/node/load-config.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { examineServer, type FoundEngine, type Unusable, usualAddresses } from '../init/find-engines.ts'
import { firstConfig } from '../init/first-config.ts'
import type { Args, Command, Io } from './command.ts'
import { newKey } from './key.ts'

const FILE = 'firstlight.yaml'
const LIMIT_MS = 5_000

export const init: Command = {
  name: 'init',
  summary: 'Write a first configuration for the engines that it finds.',
  examples: [
    'firstlight init',
    'firstlight init http://10.0.0.1:8000 http://10.0.0.2:8000 --key-env VLLM_KEY',
    'firstlight init http://10.0.0.1:8000 --listen 0.0.0.0:8080 --output staging.yaml',
  ],
  positionals: '[URL…]',
  flags: {
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      about:
        'Address of the gateway. If other machines can reach it, a key for the first client is made. ' +
        'Default: 127.0.0.1:8080.',
    },
    'key-env': { type: 'string', value: 'NAME', about: 'Environment variable with the key of the engines.' },
    output: { type: 'string', short: 'o', value: 'FILE', about: `File to write. Default: ${FILE}.` },
    force: { type: 'boolean', about: 'Replace the file if it exists.' },
  },
  run: runInit,
}

interface Answers {
  /** Empty: the usual ports of this machine. */
  readonly urls: readonly string[]
  readonly listen: string
}

/** Asks two questions on a terminal, unless the command line answers them. */
async function runInit(args: Args, io: Io): Promise<number> {
  const file = args.text('output') ?? FILE
  if (existsSync(file) && !args.on('force'))
    throw new UsageError(`${file} exists.`, 'Name another file with --output, or replace it with --force.')
  const { urls, listen } = await answersOf(args, io)
  const engineKey = args.text('key-env')
  const engines = await enginesAt(urls, keyIn(engineKey, io), io)
  const clientKey = isLoopback(hostOf(listen)) ? null : newKey()
  const clientKeySha256 = clientKey === null ? null : sha256(clientKey)
  const text = firstConfig(engines, { listen, engineKey, clientKeySha256 })
  // Rejects an address or a name of a variable that is not valid, before anything is written.
  parseConfigText(text, anySecret, { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256 })
  writeFileSync(file, text)
  io.out(`${file} is written.`)
  for (const line of nextSteps(file, { listen, engineKey, clientKey })) io.out(line)
  return 0
}

async function answersOf(args: Args, io: Io): Promise<Answers> {
  const written = args.text('listen')
  const urls =
    args.positionals.length > 0 || io.question === undefined
      ? args.positionals
      : wordsOf(await io.question('Addresses of your engines (Enter: look for engines on this machine): '))
  if (written !== null || io.question === undefined) return { urls, listen: written ?? '127.0.0.1:8080' }
  const others = await io.question('Will other machines use the gateway? [y/N] ')
  return { urls, listen: /^y/i.test(others.trim()) ? '0.0.0.0:8080' : '127.0.0.1:8080' }
}

const wordsOf = (line: string): readonly string[] => line.split(/[\s,]+/).filter((word) => word !== '')

/** The address as a URL without a path: `10.0.0.1:8000` is short for http. */
function urlOf(word: string): string {
  const text = word.includes('://') ? word : `http://${word}`
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${JSON.stringify(word)} is not a URL of an engine.`, 'Example: http://10.0.0.1:8000')
  return (url.origin + url.pathname).replace(/\/+$/, '').replace(/\/v1$/, '')
}

function keyIn(variable: string | null, { env }: Io): string | null {
  if (variable === null) return null
  const key = env[variable]
  if (key !== undefined && key !== '') return key
  throw new UsageError(`--key-env: ${variable} is not set in the environment.`, `Set it first: export ${variable}=KEY`)
}

/** Engines at these addresses. Fails if one of them has none; of the usual addresses, those that have one count. */
async function enginesAt(words: readonly string[], key: string | null, io: Io): Promise<readonly FoundEngine[]> {
  const named = words.map(urlOf)
  const urls = named.length > 0 ? named : usualAddresses()
  io.out(`Requesting the models of ${urls.length} address${urls.length === 1 ? '' : 'es'} …`)
  const results = await Promise.all(urls.map((url) => examineServer(url, key, LIMIT_MS)))
  const engines = results.filter((result) => 'models' in result)
  for (const { url, models } of engines) io.out(`  ${url}: ${models.join(', ')}`)
  const missing = results.filter((result): result is Unusable => 'why' in result)
  if (named.length > 0 && missing.length > 0)
    throw new UsageError(
      missing.map(({ url, why }) => `${url}: ${why}`).join('\n'),
      'Start the engine, or leave its address out.',
    )
  if (engines.length === 0)
    throw new UsageError(
      'There is no engine at the usual ports of this machine.',
      'Name the addresses: firstlight init http://10.0.0.1:8000. Or try "firstlight demo" with simulated engines.',
    )
  return engines
}

const hostOf = (listen: string): string => listen.slice(0, listen.lastIndexOf(':')).replaceAll(/^\[|\]$/g, '')

interface StartFacts {
  readonly listen: string
  readonly engineKey: string | null
  readonly clientKey: string | null
}

/** What to do next. The key of the first client is printed once and stored nowhere. */
function nextSteps(file: string, { listen, engineKey, clientKey }: StartFacts): readonly string[] {
  const config = file === FILE ? '' : ` --config ${file}`
  return [
    ...(clientKey === null
      ? []
      : ['', 'Key of the first client, which is not stored:', `  ${clientKey}`, '', 'Set before the start:']),
    ...(clientKey === null ? [] : ['  export FIRSTLIGHT_ADMIN_KEY=$(firstlight key admin | head -1)']),
    ...(engineKey === null ? [] : [`  export ${engineKey}=KEY`]),
    '',
    'Next:',
    `  firstlight doctor${config}   # examines the engines`,
    `  firstlight serve${config}    # http://${listen}/dashboard`,
  ]
}
