/** Compares the pool's vocabulary with the token ids of its engines. */
import type { PoolSettings } from '../../config.ts'
import { PromptAnalyzer } from '../../core/tokens/prompt-analyzer.ts'
import type { Prompt } from '../../core/tokens/prompt.ts'
import { fileVocabularies } from '../../platform/node/vocabulary-files.ts'
import { chat } from '../../protocols/chat.ts'
import { tokenize } from '../../protocols/tokenize.ts'
import { openVocabularies, type OpenVocabulary } from '../../vocabulary.ts'
import type { ReachableEngine } from './engine/facts.ts'
import { SAMPLE_CHAT, SAMPLE_TEXT } from './engine/sample.ts'
import type { Findings } from './finding.ts'

interface Folder {
  readonly folder: string
  readonly found: Findings
}

export async function checkVocabulary(
  pool: PoolSettings,
  members: readonly ReachableEngine[],
  { folder, found }: Folder,
): Promise<void> {
  if (pool.tokenizer === null) {
    // The size of audio determines its token count.
    if (members.length > 0 && members.every(({ facts }) => facts.switches.isSpeechOnly)) return
    return found.note('vocabulary', 'none: prompts are measured in bytes', {
      costs:
        'Counts are off by some percent, and block boundaries differ from the engines’: fewer cache hits are ' +
        'predicted.',
      next:
        `firstlight vocab compile MODEL_FOLDER -o model.vocab, and \`tokenizer: model.vocab\` in pool ` +
        `${pool.model}.`,
    })
  }
  try {
    const opened = await openVocabularies([pool.tokenizer], fileVocabularies(folder))
    compareVocabulary(opened.get(pool.tokenizer)!, pool, { members, found })
  } catch (error) {
    found.problem('vocabulary', error instanceof Error ? error.message : String(error), {
      costs: 'The gateway on Node will not start.',
      next: 'On Workers this is a storage key, not a file: ignore this finding there.',
    })
  }
}

/** Compares our token ids of the samples with the engine's. */
function compareVocabulary(
  { tokenizer, template }: OpenVocabulary,
  pool: PoolSettings,
  { members, found }: { readonly members: readonly ReachableEngine[]; readonly found: Findings },
): void {
  const tokenizing = members.filter(({ facts }) => facts.tokens.ids !== null)
  if (tokenizing.length === 0)
    return found.note('vocabulary', `${pool.tokenizer} is valid; no engine has /tokenize to compare it with`)
  const utf8 = new TextEncoder()
  const analyzer = new PromptAnalyzer({
    model: pool.model,
    blockTokens: pool.blockTokens,
    encodeUtf8: (from, into) => utf8.encodeInto(from, into).written,
    now: () => 0,
    tokenizer,
    template,
  })
  const ours = (prompt: Prompt): string =>
    analyzer.measure({ prompt, bodyBytes: 0, adapter: null, salts: [], tenant: null, withIds: true }).ids?.join() ??
    'none'
  const remedy = {
    costs: 'Token counts are wrong, and cache hits are not predicted.',
    next: `Compile it from the model the engines serve: firstlight vocab compile MODEL_FOLDER -o ${pool.tokenizer}`,
  }
  const texts = tokenizing.filter(
    ({ facts }) => facts.tokens.ids!.join() !== ours(tokenize.prompt({ prompt: SAMPLE_TEXT })),
  )
  if (texts.length > 0)
    return found.problem(
      'vocabulary',
      `${pool.tokenizer} differs from ${names(texts)}: other token ids for the sample text`,
      remedy,
    )
  found.ok('vocabulary', `${pool.tokenizer}: same token ids as ${names(tokenizing)}`)
  if (template === null)
    return found.note('chat_template', 'not in the vocabulary', {
      costs: 'Chats are measured in bytes.',
      next: 'Compile it again with --template chat_template.jinja.',
    })
  const chats = tokenizing.filter(({ facts }) => facts.tokens.chat !== null)
  const unlike = chats.filter(({ facts }) => facts.tokens.chat!.join() !== ours(chat.prompt(SAMPLE_CHAT)))
  if (unlike.length > 0)
    found.problem('chat_template', `differs from that of ${names(unlike)}: other token ids for the sample chat`, {
      ...remedy,
      next: `${remedy.next} --template FILE, the engines’ --chat-template.`,
    })
  else if (chats.length > 0) found.ok('chat_template', `the same as that of ${names(chats)}`)
}

const names = (members: readonly ReachableEngine[]): string => members.map(({ id }) => id).join(', ')
