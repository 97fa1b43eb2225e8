import { randomBytes } from 'node:crypto'
import { id } from '../../config/fields.ts'
import { KEY_PREFIX } from '../../core/keys/key-prefix.ts'
import { sha256 } from '../../platform/node/load-config.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { asJson, outputOf } from './output-file.ts'

export const key: Command = {
  name: 'key',
  summary: 'Generate a client key and its configuration.',
  examples: ['firstlight key team-a', 'firstlight key team-a | head -1', 'firstlight key team-a --json team-a.json'],
  positionals: '[NAME]',
  flags: {
    json: {
      type: 'string',
      value: 'FILE',
      about: 'Also write name, key, hash and variable as JSON, readable only by you.',
    },
  },
  run: runKey,
}

/** As many bits as SHA-256 has. */
const RANDOM_BYTES = 32

/** Returns a new secret. */
export const newKey = (): string => KEY_PREFIX + randomBytes(RANDOM_BYTES).toString('base64url')

/** Prints the key as the first line, for pipes. The key is not stored. */
async function runKey(args: Args, io: Io): Promise<number> {
  const name = nameOf(args)
  const write = outputOf(args, 'json', { secret: true })
  const secret = newKey()
  const hash = sha256(secret)
  const env = variableOf(name)
  write(() => asJson({ name, key: secret, sha256: hash, env }))
  io.out(secret)
  for (const line of guide({ name, hash, env })) io.out(line)
  return 0
}

function nameOf({ positionals: [name = 'client', ...rest] }: Args): string {
  if (rest.length > 0)
    throw new UsageError('firstlight key generates one key at a time.', `Example: firstlight key ${name}`)
  const read = id.safeParse(name)
  if (read.success) return name
  throw new UsageError(
    `NAME ${read.error.issues[0]!.message}, got ${JSON.stringify(name)}.`,
    'Example: firstlight key team-a',
  )
}

/** Converts `team-a` to `TEAM_A_KEY`. Variable names do not start with a digit. */
function variableOf(name: string): string {
  const words = name
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]+/g, '_')
    .replaceAll(/_$/g, '')
  return `${/^\d/.test(words) ? 'CLIENT_' : ''}${words}_KEY`
}

/** Quotes a name that YAML would read as a number, boolean or null. */
const inYaml = (name: string): string => (/^(?:\d.*|true|false|null)$/i.test(name) ? JSON.stringify(name) : name)

/** Does not repeat the key, because users paste this text into files. */
const guide = ({
  name,
  hash,
  env,
}: {
  readonly name: string
  readonly hash: string
  readonly env: string
}): string[] => [
  '',
  `The line above is the key of ${name}. It is sent as "authorization: Bearer KEY". It is shown once and not stored.`,
  '',
  'In the configuration, as a hash, so that the file contains no secret:',
  '',
  '  keys:',
  `    - { name: ${inYaml(name)}, secret: { sha256: ${hash} } }`,
  '',
  'Or by the name of an environment variable:',
  '',
  '  keys:',
  `    - { name: ${inYaml(name)}, secret: { env: ${env} } }`,
  '',
  `  export ${env}=KEY                # Node: environment of the gateway, for example /etc/firstlight.env`,
  `  npx wrangler secret put ${env}   # Workers: wrangler prompts for the key`,
]
