/** What a shell is given so that it completes `poste`: each script asks the program itself, so none of them grows old. */

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** Printed instead of candidates where the shell is to complete files. */
export const FILES = ':files';

const BASH = `# bash completion for poste: eval "$(poste completion bash)", or a file that bash-completion reads
_poste() {
  local line word cur='' joined='' prefix
  local -a words=()
  # bash splits words at colons, which addresses and fingerprints have: join them.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ \${#words[@]} -gt 0 && ( $word == : || $joined == : ) ]]; then
      words[\${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    joined=$word
  done
  [[ \${#words[@]} -gt 0 ]] && cur=\${words[\${#words[@]}-1]}
  prefix=
  [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && prefix=\${cur%"\${cur##*:}"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      compopt -o default 2>/dev/null
    elif [[ -n $line ]]; then
      line=\${line%%$'\\t'*}
      COMPREPLY+=("\${line#"$prefix"}")
    fi
  done < <(poste completion candidates -- "\${words[@]}" 2>/dev/null)
}
complete -F _poste poste
`;

const ZSH = `#compdef poste
# zsh completion for poste: source <(poste completion zsh), or a file _poste in a folder of fpath
_poste() {
  local line
  local -a candidates
  for line in "\${(@f)$(poste completion candidates -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == ${FILES} ]]; then
      _files
      return
    fi
    [[ -n $line ]] && candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  (( $#candidates )) && _describe poste candidates
}
if [[ $funcstack[1] == _poste ]]; then
  _poste "$@"
else
  compdef _poste poste
fi
`;

const FISH = `# fish completion for poste: poste completion fish | source, or ~/.config/fish/completions/poste.fish
function __poste_candidates
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l lines (poste completion candidates -- $words[2..-1] "$current" 2>/dev/null)
  if test "$lines[1]" = '${FILES}'
    __fish_complete_path "$current"
  else
    printf '%s\\n' $lines
  end
end
complete -c poste -f -a '(__poste_candidates)'
`;

export const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
