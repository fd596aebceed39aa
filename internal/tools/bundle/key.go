package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"aead.dev/minisign"
)

// passwordKey names the environment variable with the secret key's password.
const passwordKey = "MINISIGN_PASSWORD"

// signer returns what signs manifests with the key in a file, or nil where no
// file is named. The comment that is signed too tells the version and not the
// time, so that the same source gives the same bundle.
func signer(file, version string) (func([]byte) ([]byte, error), error) {
	if file == "" {
		return nil, nil
	}
	key, err := readSecretKey(file)
	if err != nil {
		return nil, fmt.Errorf("KEY: reading the secret key %s: %w", file, err)
	}
	return func(manifest []byte) ([]byte, error) {
		return minisign.SignWithComments(key, manifest, "personal "+version,
			fmt.Sprintf("signature from minisign secret key %016X", key.ID())), nil
	}, nil
}

func readSecretKey(file string) (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return key, err
	}
	if !minisign.IsEncrypted(text) {
		return key, key.UnmarshalText(text)
	}
	password, given := os.LookupEnv(passwordKey)
	if !given {
		return key, errors.New("it has a password: give it by " + passwordKey)
	}
	return minisign.DecryptKey(password, text)
}

type keygenCommand struct {
	File string `arg:"" help:"The file for the secret key. With MINISIGN_PASSWORD set it is encrypted with that."`
}

// Run prints where the keys are. It never writes over a file.
func (k *keygenCommand) Run(stdout io.Writer) error {
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	secretText, err := encodeSecret(secret)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	publicText, err := public.MarshalText()
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	if err := create(k.File, 0o600, secretText); err != nil {
		return err
	}
	if err := create(k.File+".pub", 0o644, publicText); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "secret key: %s\npublic key: %s.pub\n", k.File, k.File)
	return err
}

func encodeSecret(key minisign.PrivateKey) ([]byte, error) {
	if password := os.Getenv(passwordKey); password != "" {
		return minisign.EncryptKey(password, key)
	}
	return key.MarshalText()
}

// create writes a file that must not be there yet.
func create(path string, mode os.FileMode, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}
