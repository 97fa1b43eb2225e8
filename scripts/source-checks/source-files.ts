/** Source files of the repository, parsed. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseSync } from 'vite'

const root = new URL('../..', import.meta.url).pathname

/** Files that this project writes by hand. Build results and installed packages are left out. */
const PATTERN = '{src,durable,packages,bin,scripts,test}/**/*.{ts,tsx,mts,mjs}'

export interface SourceFile {
  /** Relative to the root of the repository, as in `src/gateway.ts`. */
  readonly path: string
  readonly text: string
  readonly parsed: ReturnType<typeof parseSync>
}

export function sourceFiles(): SourceFile[] {
  return globSync(PATTERN, { cwd: root, exclude: (path) => /(^|\/)(node_modules|dist)(\/|$)/.test(path) })
    .sort()
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8')
      return { path, text, parsed: parseSync(path, text) }
    })
}

export const readText = (path: string): string => readFileSync(join(root, path), 'utf8')

export const listFiles = (pattern: string): string[] => globSync(pattern, { cwd: root }).sort()

/** Number of the line at an offset, from 1. */
export const lineAt = ({ text }: SourceFile, offset: number): number => text.slice(0, offset).split('\n').length

/** Path of the file that an import names; null: a package. */
export const importedPath = ({ path }: SourceFile, specifier: string): string | null =>
  specifier.startsWith('.') ? join(dirname(path), specifier) : null

export const isTest = ({ path }: SourceFile): boolean => path.startsWith('test/')

/** Files that users run: the gateway, its Durable Objects and the tools, without benchmarks. */
export const isProduct = ({ path }: SourceFile): boolean =>
  /^(src|durable|bin|packages\/(simulator|replay|convert))\//.test(path)
