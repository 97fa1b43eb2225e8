/** Installs the clients of one language into the cache, once for each list of versions. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { basePython } from '../conformance/environment.ts'
import { installFailure } from '../conformance/install-failure.ts'
import type { Processes } from '../conformance/processes.ts'
import { inCache } from '../conformance/standalone.ts'
import type { FaultClient } from './clients.ts'

type Language = FaultClient['language']

const INSTALL_LIMIT_S = 300

const PACKAGES: Readonly<Record<Language, readonly string[]>> = {
  javascript: [
    'openai@7.59.0',
    '@anthropic-ai/sdk@1.14.0',
    'ai@7.0.173',
    '@ai-sdk/openai@4.0.118',
    '@ai-sdk/anthropic@4.0.105',
  ],
  python: ['openai==3.57.0', 'anthropic==2.14.0'],
}

export const folderOf = (language: Language): string => inCache('clients-of-faults', language)

export const pythonOf = (folder: string): string => join(folder, 'venv/bin/python')

/** Versions of the client's packages, as its table names them. */
export const versionsOf = (language: Language): string => PACKAGES[language].join(', ').replaceAll('==', '@')

/** Returns why clients of this language cannot run here. null: they are installed. */
export async function installClients(language: Language, processes: Processes): Promise<string | null> {
  const packages = PACKAGES[language]
  const folder = folderOf(language)
  const stamp = join(folder, `installed-${createHash('sha256').update(packages.join()).digest('hex').slice(0, 12)}`)
  if (existsSync(stamp)) return null
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const step = (what: string, command: readonly string[]) =>
    processes.finish({ what, command, folder, limitS: INSTALL_LIMIT_S })
  try {
    if (language === 'javascript') {
      writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
      await step('install clients for JavaScript', ['npm', 'install', '--no-audit', '--no-fund', ...packages])
    } else {
      await step('make a Python environment', [await basePython(processes), '-m', 'venv', join(folder, 'venv')])
      await step('install clients for Python', [pythonOf(folder), '-m', 'pip', 'install', '-q', ...packages])
    }
    writeFileSync(stamp, '')
    return null
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    return `${packages.join(', ')} are not installed and cannot be fetched: ${installFailure(error)}`
  }
}
