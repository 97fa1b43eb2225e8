import { existsSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type CompileInput, compileVocabulary } from '../../core/tokens/compile-vocabulary.ts'
import { replacedSplitting } from '../../core/tokens/tokenizer-class.ts'
import { readTokenizerConfig } from '../../core/tokens/tokenizer-config.ts'
import { VocabularyError } from '../../core/tokens/vocabulary.ts'
import { readInput } from '../../platform/node/usage-error.ts'
import { openVocabulary, type OpenVocabulary } from '../../vocabulary.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { outputOf } from './output-file.ts'

export const vocab: Command = {
  name: 'vocab',
  summary: "Compile a model's tokenizer for exact token counts.",
  examples: [
    'firstlight vocab compile ./Qwen3-8B -o qwen3.vocab',
    'firstlight vocab compile tokenizer.json --template chat_template.jinja -o my.vocab',
    'firstlight vocab show qwen3.vocab',
  ],
  positionals: 'compile SRC | show FILE',
  instead: { 'no-template': ['template'] },
  flags: {
    out: { type: 'string', short: 'o', value: 'FILE', about: 'Output file of the compiled vocabulary.' },
    template: { type: 'string', value: 'FILE', about: 'Chat template; replaces that of the model folder.' },
    'no-template': { type: 'boolean', about: 'Omit the chat template. Chats are then measured in bytes.' },
  },
  run,
}

const EXAMPLE = 'Example: firstlight vocab compile ./Qwen3-8B -o qwen3.vocab'

async function run(args: Args, io: Io): Promise<number> {
  const [verb, source, ...rest] = args.positionals
  if ((verb !== 'compile' && verb !== 'show') || source === undefined || rest.length > 0) {
    throw new UsageError('firstlight vocab needs `compile SRC -o FILE` or `show FILE`.', EXAMPLE)
  }
  try {
    return verb === 'compile' ? await compile(source, args, io) : await show(source, io)
  } catch (error) {
    if (!(error instanceof VocabularyError)) throw error
    throw new UsageError(`${source}: ${error.message}.`, EXAMPLE)
  }
}

async function compile(source: string, args: Args, io: Io): Promise<number> {
  const out = args.text('out')
  if (out === null)
    throw new UsageError(
      'The output file is missing.',
      `Give it with -o: firstlight vocab compile ${source} -o ${nameFor(source)}`,
    )
  const write = outputOf(args, 'out')
  const file = gzipSync(compileVocabulary(readSource(source, args)), { level: 9 })
  // Opens the result now; otherwise an error would appear only at the start of the gateway.
  const opened = await openVocabulary(file)
  write(() => file)
  io.out(`${out}: ${Math.ceil(file.length / 1024)} KiB`)
  describe(opened, io)
  warnOfReplacedSplitting(source, opened, io)
  io.out(`\nSet it in the configuration of the pool: tokenizer: ${out}`)
  return 0
}

async function show(file: string, io: Io): Promise<number> {
  describe(await openVocabulary(readInput(file, 'FILE must be the output of `firstlight vocab compile`.')), io)
  return 0
}

function describe({ header, size }: OpenVocabulary, io: Io): void {
  io.out(`  ids            ${size}, ${header.added.length} of them added tokens`)
  const { characters } = header
  if (characters === undefined) io.out(`  pre-tokenizer  ${header.preTokenizer}${header.nfc ? ', after NFC' : ''}`)
  else {
    const model = characters.model === 'bpe' ? 'BPE of characters' : 'Unigram'
    io.out(`  model          ${model}, words: ${characters.words.kind}`)
  }
  io.out(
    '  chat template  ' +
      `${header.template === null ? 'none: chats are measured in bytes' : `${header.template.length} characters`}`,
  )
}

/** Ids of engines differ if their tokenizer class splits words in another way than the compiled file. */
function warnOfReplacedSplitting(
  source: string,
  { header: { preTokenizer, characters } }: OpenVocabulary,
  io: Io,
): void {
  if (!isFolder(source) || characters !== undefined) return
  const declared = field(join(source, 'tokenizer_config.json'), 'tokenizer_class')
  const replaced = replacedSplitting(preTokenizer, {
    declared,
    modelType: field(join(source, 'config.json'), 'model_type'),
  })
  if (replaced === null) return
  const { tokenizerClass, splitting } = replaced
  io.err(
    `warning: tokenizer.json splits words as ${preTokenizer}, but transformers 5 loads this folder with ` +
      `${tokenizerClass}, which splits as ${splitting}. The token ids of the engines differ then. Save the tokenizer ` +
      'that the engines load (AutoTokenizer.from_pretrained(SRC).save_pretrained(COPY)), compile COPY, and compare ' +
      'with `firstlight doctor`.',
  )
}

/** undefined: no such file or field. */
const field = (file: string, name: string): unknown =>
  existsSync(file) ? (readJson(file) as Readonly<Record<string, unknown>> | null)?.[name] : undefined

const isFolder = (source: string): boolean => existsSync(source) && statSync(source).isDirectory()

/** Reads a model folder, or a single tokenizer.json. */
function readSource(source: string, args: Args): CompileInput {
  const folder = isFolder(source)
  const tokenizer = readJson(folder ? join(source, 'tokenizer.json') : source)
  const configFile = folder ? join(source, 'tokenizer_config.json') : null
  const config = configFile !== null && existsSync(configFile) ? readJson(configFile) : {}
  const override = args.on('no-template')
    ? { chat_template: null }
    : templateOf(args.text('template') ?? templateFile(source, folder))
  return { tokenizer, ...readTokenizerConfig({ ...(config as object), ...override }) }
}

/** Newer model folders keep the chat template in its own file, which overrides tokenizer_config.json. */
function templateFile(source: string, folder: boolean): string | null {
  const file = join(source, 'chat_template.jinja')
  return folder && existsSync(file) ? file : null
}

const templateOf = (file: string | null): { chat_template?: string } =>
  file === null
    ? {}
    : { chat_template: readInput(file, '--template must be a file with a Jinja chat template.').toString('utf8') }

const SOURCE_HINT = 'SRC is a tokenizer.json, or a model folder that has one.'

function readJson(file: string): unknown {
  const text = readInput(file, SOURCE_HINT).toString('utf8')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${file} is not JSON: ${error instanceof Error ? error.message : String(error)}.`, SOURCE_HINT)
  }
}

const nameFor = (source: string): string => `${basename(source).replace(/\.json$/, '') || 'model'}.vocab`
