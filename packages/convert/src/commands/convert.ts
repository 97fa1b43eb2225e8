import { existsSync, statSync } from 'node:fs'
import { parseConfigText } from '../../../../src/config/parse.ts'
import { ConfigError } from '../../../../src/config/problem.ts'
import { anySecret } from '../../../../src/platform/node/load-config.ts'
import type { Converter } from '../draft.ts'
import { fromDynamo } from '../dynamo.ts'
import { fromLitellm } from '../litellm.ts'
import { fromProductionStack } from '../production-stack.ts'
import { fromVllmRouter } from '../vllm-router.ts'
import { oneOfFlag } from '../../../../src/cli/commands/common-flags.ts'
import { readInput } from '../../../../src/platform/node/usage-error.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'

const ROUTERS = ['production-stack', 'vllm-router', 'litellm', 'dynamo'] as const
type Router = (typeof ROUTERS)[number]

const converters: Readonly<Record<Router, { readonly convert: Converter; readonly source: string }>> = {
  'production-stack': {
    convert: fromProductionStack,
    source: 'a script or manifest that starts vllm_router, its dynamic configuration, Helm values, or its flags',
  },
  'vllm-router': { convert: fromVllmRouter, source: 'a script or manifest that starts vllm-router, or its flags' },
  litellm: { convert: fromLitellm, source: 'the config.yaml of the proxy, with model_list' },
  dynamo: {
    convert: fromDynamo,
    source: 'a script that starts dynamo.frontend, a DynamoGraphDeployment, or flags of the frontend',
  },
}

export const convert: Command = {
  name: 'convert',
  summary: 'Convert the configuration of another router, and list what has no counterpart.',
  examples: [
    'firstlight convert --from litellm config.yaml > firstlight.yaml',
    'firstlight convert --from production-stack values.yaml',
    'firstlight convert --from vllm-router --model Qwen/Qwen3-8B -- --worker-urls http://10.0.0.1:8000 ' +
      '--policy cache_aware',
  ],
  positionals: '<FILE | -- FLAGS...>',
  flags: {
    from: { type: 'string', value: 'ROUTER', about: `Source: ${ROUTERS.join(', ')}.` },
    model: { type: 'string', value: 'NAME', about: 'Served model name, if the source does not contain it.' },
  },
  run: runConvert,
}

/** Prints the document with notes as comments. Returns 1 if it is not valid yet. */
async function runConvert(args: Args, io: Io): Promise<number> {
  const from = oneOfFlag(args, 'from', ROUTERS, 'litellm')
  if (from === null)
    throw new UsageError(`firstlight convert needs --from ${ROUTERS.join('|')}.`, `Example: ${convert.examples[0]}`)
  const { convert: converter, source } = converters[from]
  const [first, ...rest] = args.positionals
  if (first === undefined)
    throw new UsageError('firstlight convert needs a file, or flags after --.', `${from} needs ${source}.`)
  const isFile = rest.length === 0 && !first.startsWith('--')
  const text = isFile ? readFile(first) : ''
  const draft = converter({ words: isFile ? null : args.positionals, text, model: args.text('model') })
  if (draft === null)
    throw new UsageError(`${isFile ? first : 'The command line'} is not a configuration of ${from}.`, `Give ${source}.`)
  const document = draft.render(from)
  io.out(document)
  return validated(document, io)
}

const MAX_BYTES = 4 * 1024 * 1024

function readFile(file: string): string {
  if (existsSync(file) && statSync(file).size > MAX_BYTES)
    throw new UsageError(`${file} is larger than 4 MiB.`, 'Name the configuration of the router.')
  return readInput(file, 'Name the file, or write the flags of the router after --.').toString('utf8')
}

function validated(document: string, io: Io): number {
  try {
    parseConfigText(document, anySecret, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
    return 0
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    io.err('The document needs changes before firstlight check accepts it:')
    io.err(error.message)
    return 1
  }
}
