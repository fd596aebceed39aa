"""Creates the tables of Django 3.2 and a user with each of its password hashers, by its forms:
python3 djangousers.py URL PASSWORDS, where the URL is that of an empty database, and PASSWORDS a JSON
list, which is repeated."""

import json
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

url, passwords = urlsplit(sys.argv[1]), json.loads(sys.argv[2])
hashers = [
    "PBKDF2PasswordHasher",
    "PBKDF2SHA1PasswordHasher",
    "Argon2PasswordHasher",
    "BCryptSHA256PasswordHasher",
    "BCryptPasswordHasher",
    "SHA1PasswordHasher",
    "MD5PasswordHasher",
    "UnsaltedSHA1PasswordHasher",
    "UnsaltedMD5PasswordHasher",
    "CryptPasswordHasher",
]
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": url.hostname,
            "PORT": url.port,
            "NAME": url.path[1:],
            "USER": url.username,
            "PASSWORD": url.password,
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    PASSWORD_HASHERS=["django.contrib.auth.hashers." + h for h in hashers],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
    SECRET_KEY="of a test",
)
django.setup()

from django.contrib.auth.forms import AuthenticationForm, UserCreationForm
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import User
from django.core.management import call_command

call_command("migrate", verbosity=0)
for i, name in enumerate(hashers):
    algorithm = __import__("django.contrib.auth.hashers", fromlist=[name]).__dict__[name].algorithm
    password = passwords[i % len(passwords)]
    form = UserCreationForm({"username": algorithm, "password1": password, "password2": password})
    if not form.is_valid():
        sys.exit(form.errors.as_json())
    user = form.save()
    user.email, user.first_name, user.last_name = algorithm + "@example.com", "Ada \\N & <b>", 'O\'Lovelace; "🦊"'
    user.password = make_password(form.cleaned_data["password1"], hasher=algorithm)
    user.save()
    if not check_password(AuthenticationForm().fields["password"].clean(password), user.password):
        sys.exit("Django refuses the password of " + algorithm)
User.objects.create_user("unusable", "unusable@example.com")
User.objects.create_user("disabled", "disabled@example.com", passwords[0], is_active=False)
